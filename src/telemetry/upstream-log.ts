// Log lines about the upstream: its failures, its addresses and its names. An upstream that is down fails every request, and an
// address may keep failing and recovering, so lines of each kind are written at most a few times a second; the metrics count
// all events.
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import { failureCode } from "../core/failure.ts";
import type { UpstreamEvents, UpstreamFault } from "../core/upstream.ts";
import { Samplers } from "./log.ts";

/** Returns the function that logs a failure. */
export function createUpstreamLog(samplers: Samplers): (fault: UpstreamFault) => void {
  const { log } = samplers;
  const passes = samplers.sampled("reason", 1000, "upstream failures left out");
  return (fault) => {
    if (log.isLevelEnabled("warn") && passes(fault.reason)) log.warn(fault, "upstream failed");
  };
}

export function createUpstreamEventLog(log: Logger, clock: Clock, perSecond: number): UpstreamEvents {
  const passes = new Samplers(log, clock, perSecond).sampled("event", 1000, "upstream events left out");
  return {
    onFailover(address, reason, code, isNews) {
      if (!isNews || !passes("failedOver")) return;
      log.warn({ address, reason, code }, "upstream address not reached, another one is tried");
    },
    onEjected(address, reason, backoffMs) {
      if (passes("ejected")) log.warn({ address, reason, backoffMs }, "upstream address ejected");
    },
    onRestored(address) {
      if (passes("restored")) log.info({ address }, "upstream address restored");
    },
    onUnhealthy: (address, fault) => log.warn({ address, fault }, "upstream address unhealthy"),
    onHealthy: (address) => log.info({ address }, "upstream address healthy"),
    onLookupFailed(name, error, isKnown) {
      const code = failureCode(error);
      const meanwhile = isKnown ? "the addresses from before stay in use" : "no address of it is known";
      log.warn({ name, code }, `upstream name not looked up, ${meanwhile}`);
    },
    onLookupRecovered: (name) => log.info({ name }, "upstream name looked up again"),
  };
}
