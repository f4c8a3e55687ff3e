// Runs a thread that carries traffic: an engine of its own, which does what the main thread asks for.
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { type Clock, createThreadClock } from "../../core/clock.ts";
import { settingsOfThread } from "../../core/settings.ts";
import { SharedPeerConnections } from "../../limits/peer-connections.ts";
import { SharedConnectionCount } from "../../listener/connection-table.ts";
import { createLog, type Logger } from "../../telemetry/log.ts";
import { HistoryRow } from "../../telemetry/recent/history.ts";
import { StoreSightings } from "../../telemetry/store-log.ts";
import type { ThreadCells } from "../../telemetry/telemetry.ts";
import { threadDestination } from "../../telemetry/thread-log.ts";
import { type Engine, openEngine, type Prepared } from "../engine.ts";
import { openCounters } from "../open-counters.ts";
import { ForgivenReads, GivenFiles } from "./given-files.ts";
import {
  type Answer,
  type AnsweredTo,
  type AskedOf,
  failureOf,
  type HandedOver,
  type Request,
  type RequestName,
  startId,
  type ThreadStart,
} from "./messages.ts";
import { Pulse, pulseMs } from "./pulse.ts";

type Handlers = { [Name in RequestName]: (asked: AskedOf<Name>) => AnsweredTo<Name> | Promise<AnsweredTo<Name>> };

if (parentPort !== null) await run(parentPort, workerData as ThreadStart);

async function run(port: MessagePort, start: ThreadStart): Promise<void> {
  const answer = (message: Answer): void => port.postMessage(message);
  const attempt = async (id: number, work: () => unknown): Promise<void> => {
    try {
      answer({ id, ok: true, answered: await work() });
    } catch (error) {
      answer({ id, ok: false, failure: failureOf(error) });
    }
  };
  await attempt(startId, async () => {
    const handlers = await open(port, start);
    port.on("message", ({ id, name, asked }: Request) => {
      void attempt(id, () => (handlers[name] as (asked: unknown) => unknown)(asked));
    });
  });
}

async function open(port: MessagePort, start: ThreadStart): Promise<Handlers> {
  const { settings, thread, counters, connections, http2LingerMs, logsWarnings } = start;
  const { chosen, onTrial, version, nodeVersion, sharedReads, ticketSecret, forgivenUntil } = start;
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
  const forgivenReads = new ForgivenReads((wanted) => port.postMessage(wanted));
  const ownCounters = openCounters(counters, { thread, isShared: true });
  const engine = await openEngine(settingsOfThread(settings), files, {
    ...{ clock, log, notices, version, nodeVersion, chosen, onTrial, sharedReads, ticketSecret, forgivenUntil },
    counters: ownCounters,
    droppedLogLines: () => destination.dropped,
    connectionCount: new SharedConnectionCount(connections, thread),
    storeSightings: new StoreSightings(start.storeSightings, thread),
    history: new HistoryRow(start.history, thread),
    peerConnections: new SharedPeerConnections(ownCounters.table, clock.monotonicMs),
    ...(http2LingerMs === null ? {} : { http2LingerMs }),
    readForgiven: () => forgivenReads.read(),
  });
  forgivenReads.hasStarted = true;
  const handOver = await beginToHandOver(engine, port, new Pulse(start.pulses, thread), clock, log);
  return {
    ...reloading(engine, files, handOver, (wanted) => {
      notices.configuration.level = wanted.logsWarnings ? (wanted.settings ?? engine.settings).log.level : "silent";
    }),
    listen: (listenSettings) => engine.listen(listenSettings, { isShared: true }),
    announceStart: () => engine.announceStart(),
    changeRules: (change) => engine.changeRules(change),
    forgive: ({ forgiven, place }) => engine.forgiveHeld(forgiven, place),
    forgivenRead: (id) => forgivenReads.done(id),
    announceEnd: () => engine.announceEnd(),
    drain: ({ timeoutMs }) => engine.drain(timeoutMs),
    async close() {
      await engine.close();
      await new Promise<void>((resolve) => destination.flush(resolve));
    },
  };
}

/** Hands over all at once, then once a second what changes. Returns what hands over all again, after a reload. */
async function beginToHandOver(engine: Engine, port: MessagePort, pulse: Pulse, clock: Clock, log: Logger) {
  const handOver = async (cells: ThreadCells | null): Promise<void> => {
    const report = await engine.report();
    pulse.isReportWaiting = true;
    port.postMessage({ report, recent: engine.threadRecent.take(), cells } satisfies HandedOver);
  };
  const beat = (): void => {
    pulse.beat(clock.monotonicMs());
    // A bug in what is read ends no thread.
    if (!pulse.isReportWaiting) handOver(null).catch((error) => log.error({ err: error }, "internal error"));
  };
  await handOver(engine.cells);
  beat();
  setInterval(beat, pulseMs).unref();
  return () => handOver(engine.cells);
}

/** What is prepared waits until the main thread has the answers of all threads. */
function reloading(
  engine: Engine,
  files: GivenFiles,
  handOver: () => Promise<void>,
  onWanted: (wanted: AskedOf<"prepare">) => void,
): Pick<Handlers, "prepare" | "commit" | "drop" | "endTrial"> {
  let prepared: Prepared | null = null;
  return {
    async prepare(wanted) {
      onWanted(wanted);
      files.offer(wanted.contents);
      const settings = wanted.settings === null ? null : settingsOfThread(wanted.settings);
      prepared = settings === null ? null : await engine.prepare(settings, wanted.onTrial, wanted.chosen);
    },
    commit() {
      prepared?.commit();
      files.take();
      prepared = null;
      return handOver();
    },
    drop() {
      prepared?.drop();
      prepared = null;
      files.drop();
    },
    endTrial: () => engine.endTrial(),
  };
}
