// Log lines about failures of the upstream. An upstream that is down fails every request, so each reason is logged at most a
// few times a second and the others are counted; the metrics count all failures.
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import type { UpstreamFault } from "../core/upstream.ts";
import { Sampler } from "./sampler.ts";

interface UpstreamLog {
  record(fault: UpstreamFault): void;
  /** Reports the lines that were omitted in the last second. */
  close(): void;
  /** Lines omitted so far. */
  readonly omitted: number;
}

interface UpstreamLogOptions {
  readonly clock: Clock;
  readonly perSecond?: number;
}

export function createUpstreamLog(log: Logger, { clock, perSecond = 5 }: UpstreamLogOptions): UpstreamLog {
  const sampler = new Sampler({
    perPeriod: perSecond,
    // More than there are reasons.
    maxKeys: 100,
    report: (reason, omitted) => log.warn({ reason, omitted }, "upstream failures left out"),
  });
  return {
    record(fault) {
      if (!log.isLevelEnabled("warn")) return;
      if (sampler.passes(fault.reason, clock.monotonicMs())) log.warn(fault, "upstream failed");
    },
    close: () => sampler.close(),
    get omitted() {
      return sampler.omitted;
    },
  };
}
