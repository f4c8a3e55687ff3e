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
import { openEngine } from "../engine.ts";
import { openCounters } from "../open-counters.ts";
import { ForgivenReads } from "./forgiven-reads.ts";
import { GivenFiles } from "./given-files.ts";
import { beginToHandOver } from "./hand-over.ts";
import {
  type Answer,
  type AnsweredTo,
  type AskedOf,
  failureOf,
  type Request,
  type RequestName,
  startId,
  type ThreadStart,
} from "./messages.ts";
import { PreparedReload } from "./prepared-reload.ts";
import { Pulse } from "./pulse.ts";

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
  forgivenReads.begin();
  const handOver = await beginToHandOver(engine, { port, pulse: new Pulse(start.pulses, thread), clock, log });
  const reload = new PreparedReload(engine, files);
  return {
    prepare(wanted) {
      notices.configuration.level = wanted.logsWarnings
        ? (wanted.settings ?? engine.configuration.settings).log.level
        : "silent";
      return reload.prepare(wanted);
    },
    commit() {
      reload.commit();
      return handOver();
    },
    drop: () => reload.drop(),
    endTrial: () => engine.endTrial(),
    listen: (listenSettings) => engine.listen(listenSettings, { isShared: true }),
    announceStart: () => engine.announceStart(),
    changeRules: (change) => engine.changeRules(change),
    forgive: ({ forgiven, logPosition }) => engine.forgiveHeld(forgiven, logPosition),
    forgivenRead: (id) => forgivenReads.done(id),
    announceEnd: () => engine.announceEnd(),
    drain: ({ timeoutMs }) => engine.drain(timeoutMs),
    async close() {
      await engine.close();
      await new Promise<void>((resolve) => destination.flush(resolve));
    },
  };
}
