// Hands over to the main thread what operators ask about.
import type { MessagePort } from "node:worker_threads";
import type { Clock } from "../../core/clock.ts";
import { createErrorLog, type Logger } from "../../telemetry/log.ts";
import type { Engine } from "../engine.ts";
import type { HandedOver } from "./messages.ts";
import { type Pulse, pulseMs } from "./pulse.ts";

interface HandOverContext {
  readonly port: Pick<MessagePort, "postMessage">;
  readonly pulse: Pulse;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Hands over all at once, then once a second what changes. Returns the function that hands over all again, after a reload. Only
 * the first report may fail: it is a part of the start. Later a bug in what is read ends no thread, and undoes no reload.
 */
export async function beginToHandOver(
  engine: Pick<Engine, "cells" | "report" | "threadRecent">,
  { port, pulse, clock, log }: HandOverContext,
): Promise<() => Promise<void>> {
  /** Until the main thread has the cells of the configuration in force. */
  let owesCells = true;
  const handOver = async (): Promise<void> => {
    const cells = owesCells ? engine.cells : null;
    const report = await engine.report();
    const handedOver = { report, recent: engine.threadRecent.take(), cells } satisfies HandedOver;
    // Before it is posted, because the main thread may have it at once.
    pulse.isReportWaiting = true;
    try {
      port.postMessage(handedOver);
    } catch (error) {
      pulse.isReportWaiting = false;
      throw error;
    }
    if (cells !== null) owesCells = false;
  };
  const logError = createErrorLog(log);
  const beat = (): void => {
    pulse.beat(clock.monotonicMs());
    if (!pulse.isReportWaiting) handOver().catch(logError);
  };
  await handOver();
  beat();
  setInterval(beat, pulseMs).unref();
  return () => {
    owesCells = true;
    return handOver().catch(logError);
  };
}
