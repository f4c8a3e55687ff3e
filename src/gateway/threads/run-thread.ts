// Runs a thread that carries traffic: an engine of its own, which does what the main thread asks for.
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { createThreadClock } from "../../core/clock.ts";
import { settingsOfThread } from "../../core/settings.ts";
import { SharedPeerConnections } from "../../limits/peer-connections.ts";
import { SharedConnectionCount } from "../../listener/connection-table.ts";
import { createLog } from "../../telemetry/log.ts";
import { HistoryRow } from "../../telemetry/recent/history.ts";
import { StoreSightings } from "../../telemetry/store-log.ts";
import { threadDestination } from "../../telemetry/thread-log.ts";
import { type Engine, openEngine, type Prepared } from "../engine.ts";
import { openCounters } from "../open-counters.ts";
import { ForgivenReads, GivenFiles } from "./given-files.ts";
import {
  type Answer,
  failureOf,
  type HandedOver,
  type Request,
  type RequestName,
  type Requests,
  startId,
  type ThreadStart,
} from "./messages.ts";
import { Pulse, pulseMs } from "./pulse.ts";

type Handlers = { [Name in RequestName]: (asked: Requests[Name]["asked"]) => Promise<Requests[Name]["answered"]> };

if (parentPort !== null) await run(parentPort, workerData as ThreadStart);

async function run(port: MessagePort, start: ThreadStart): Promise<void> {
  const answer = (message: Answer): void => port.postMessage(message);
  const attempt = async (id: number, work: () => Promise<unknown>): Promise<void> => {
    try {
      answer({ id, ok: true, answered: await work() });
    } catch (error) {
      answer({ id, ok: false, failure: failureOf(error) });
    }
  };
  await attempt(startId, async () => {
    const forgivenReads = new ForgivenReads((wanted) => port.postMessage(wanted));
    const pulse = new Pulse(start.pulses, start.thread);
    const handOver: HandOver = async (engine, isWhole) => {
      const cells = isWhole ? engine.cells : null;
      pulse.isReportWaiting = true;
      const report = await engine.report();
      port.postMessage({ report, recent: engine.threadRecent.take(), cells } satisfies HandedOver);
    };
    const { engine, clock, handlers } = await open(start, forgivenReads, handOver);
    await handOver(engine, true);
    const beat = (): void => {
      pulse.beat(clock.monotonicMs());
      if (!pulse.isReportWaiting) void handOver(engine, false);
    };
    beat();
    setInterval(beat, pulseMs).unref();
    port.on("message", ({ id, name, asked }: Request) => {
      const handle = handlers[name] as (asked: unknown) => Promise<unknown>;
      void attempt(id, () => handle(asked));
    });
    return null;
  });
}

/** `isWhole`: with the cells, where new series may have been made. */
type HandOver = (engine: Engine, isWhole: boolean) => Promise<void>;

async function open(start: ThreadStart, forgivenReads: ForgivenReads, handOver: HandOver) {
  const {
    settings,
    thread,
    counters,
    chosen,
    onTrial,
    connections,
    http2LingerMs,
    version,
    nodeVersion,
    logsWarnings,
    sharedReads,
  } = start;
  const clock = createThreadClock(start.clockOffsetMs);
  const destination = threadDestination(start.logPort, { workers: settings.workers });
  const { level, time } = settings.log;
  const log = createLog({ level, time, clock, destination });
  const notices = {
    configuration: log.child({}, { level: logsWarnings ? level : "silent" }),
    // The main thread reads them.
    files: log.child({}, { level: "silent" }),
  };
  const files = new GivenFiles(start.contents);
  const ownCounters = openCounters(counters, { thread, isShared: true });
  const engine = await openEngine(settingsOfThread(settings), files, {
    ...{ clock, log, notices, version, nodeVersion, chosen, onTrial, sharedReads, ticketSecret: start.ticketSecret },
    counters: ownCounters,
    droppedLogLines: () => destination.dropped,
    connectionCount: new SharedConnectionCount(connections, thread),
    storeSightings: new StoreSightings(start.storeSightings, thread),
    history: new HistoryRow(start.history, thread),
    peerConnections: new SharedPeerConnections(ownCounters.table, clock.monotonicMs),
    ...(http2LingerMs === null ? {} : { http2LingerMs }),
    ...{ forgivenUntil: start.forgivenUntil, readForgiven: () => forgivenReads.read() },
  });
  forgivenReads.hasStarted = true;
  const handlers: Handlers = {
    ...reloading(engine, files, handOver, ({ settings, logsWarnings }) => {
      notices.configuration.level = logsWarnings ? (settings ?? engine.settings).log.level : "silent";
    }),
    ...forgiving(engine, forgivenReads),
    listen: (settings) => engine.listen(settings, { isShared: true }),
    async announceStart() {
      engine.announceStart();
      return null;
    },
    async changeRules(change) {
      engine.changeRules(change);
      return null;
    },
    async announceEnd() {
      engine.announceEnd();
      return null;
    },
    drain: ({ timeoutMs }) => engine.drain(timeoutMs),
    async close() {
      await engine.close();
      await new Promise<void>((resolve) => destination.flush(resolve));
      return null;
    },
  };
  return { engine, clock, handlers };
}

function forgiving(engine: Engine, forgivenReads: ForgivenReads): Pick<Handlers, "forgive" | "forgivenRead"> {
  return {
    async forgive({ forgiven, place }) {
      engine.forgiveHeld(forgiven, place);
      return null;
    },
    async forgivenRead(id) {
      forgivenReads.done(id);
      return null;
    },
  };
}

/** What is prepared waits until the main thread has the answers of all threads. */
function reloading(
  engine: Engine,
  files: GivenFiles,
  handOver: HandOver,
  onWanted: (wanted: Requests["prepare"]["asked"]) => void,
): Pick<Handlers, "prepare" | "commit" | "drop" | "endTrial"> {
  let prepared: Prepared | null = null;
  return {
    async prepare(wanted) {
      onWanted(wanted);
      files.offer(wanted.contents);
      const settings = wanted.settings === null ? null : settingsOfThread(wanted.settings);
      prepared = settings === null ? null : await engine.prepare(settings, wanted.onTrial, wanted.chosen);
      return null;
    },
    async commit() {
      prepared?.commit();
      files.take();
      prepared = null;
      await handOver(engine, true);
      return null;
    },
    async drop() {
      prepared?.drop();
      prepared = null;
      files.drop();
      return null;
    },
    async endTrial() {
      engine.endTrial();
      return null;
    },
  };
}
