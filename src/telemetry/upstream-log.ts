// Log lines about the upstream: its failures, its addresses and its names. An upstream that is down fails every request, and an
// address may keep failing and recovering, so lines of each kind are written at most a few times a second; the metrics count
// all events.
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import { failureCode } from "../core/failure.ts";
import type { UpstreamEvents, UpstreamFault } from "../core/upstream.ts";
import { Sampler, type Samplers } from "./log.ts";

/** Returns the function that logs a failure. */
export function createUpstreamLog(
  log: Logger,
  clock: Clock,
  samplers: Samplers,
  perSecond: number,
): (fault: UpstreamFault) => void {
  const sampler = samplers.add({
    perPeriod: perSecond,
    // More than there are reasons.
    maxKeys: 100,
    report: (reason, omitted) => log.warn({ reason, omitted }, "upstream failures left out"),
  });
  return (fault) => {
    if (!log.isLevelEnabled("warn")) return;
    if (sampler.passes(fault.reason, clock.monotonicMs())) log.warn(fault, "upstream failed");
  };
}

export function createUpstreamEventLog(log: Logger, clock: Clock, perSecond: number): UpstreamEvents {
  const sampler = new Sampler({
    perPeriod: perSecond,
    maxKeys: 3,
    report: (event, omitted) => log.warn({ event, omitted }, "upstream events left out"),
  });
  const passes = (event: string): boolean => sampler.passes(event, clock.monotonicMs());
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
