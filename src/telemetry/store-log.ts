// Log lines about the store that gateways share: one for each change of a shard's state, and one about its server. A change
// that all threads of a process see is logged once. A store whose state keeps changing is logged a few times a minute.
import type { Clock } from "../core/clock.ts";
import { type CallFailure, type StateChange, type StoreIdentity, storeStates } from "../core/store-link.ts";
import type { Logger } from "./log.ts";
import type { Samplers } from "./sampler.ts";
import type { StoreSightings } from "./store-sightings.ts";

export interface StoreLog {
  storeChanged(change: StateChange): void;
  /** May be called for each attempt: a line is written if the reason has changed. */
  storeConnectFailed(shard: number | null, failure: CallFailure): void;
  /** May be called at each heartbeat: a line is written if something has changed. */
  storeIdentified(shard: number, identity: StoreIdentity): void;
  /** The shard no longer exists. */
  storeShardGone(shard: number): void;
}

/** Servers of other versions and other warnings are not logged. */
const maxKnown = 100;

/** `perMinute`: lines for each kind of change. */
export function createStoreLog(
  log: Logger,
  clock: Clock,
  samplers: Samplers,
  perMinute: number,
  sightings: StoreSightings,
): StoreLog {
  const sampler = samplers.add({
    perPeriod: perMinute,
    periodMs: 60_000,
    maxKeys: storeStates.length ** 2 + 1,
    report: (change, omitted) => log.warn({ change, omitted }, "changes of the store's state left out"),
  });
  const known = new Set<string>();
  const isNew = (text: string): boolean => !known.has(text) && known.size < maxKnown && known.add(text).has(text);
  /** Why the last attempt to reach a shard failed, as logged. */
  const reasons = new Map<number | null, string>();
  const isNewReason = (shard: number | null, cause: StateChange["cause"]): boolean => {
    if (reasons.get(shard) === cause) return false;
    reasons.set(shard, cause);
    return sightings.isReporter(shard ?? 0) && sampler.passes("not connected", clock.monotonicMs());
  };
  return {
    storeChanged(change) {
      if (change.from === change.to) {
        const { shard, cause, detail } = change;
        if (isNewReason(shard, cause)) log.warn({ shard, cause, detail }, "store not usable");
        return;
      }
      if (change.to === "away") reasons.set(change.shard, change.cause);
      else for (const shard of [change.shard, null]) reasons.delete(shard);
      if (!sightings.isNews(change.shard, change.to)) return;
      const passes = sampler.passes(`${change.from} to ${change.to}`, clock.monotonicMs());
      if (passes) logChange(log, change);
    },
    storeConnectFailed(shard, { kind, detail }) {
      if (isNewReason(shard, kind)) log.warn({ shard, cause: kind, detail }, "store not connected");
    },
    storeIdentified(shard, { server, warnings }) {
      if (!sightings.isReporter(shard)) return;
      if (isNew(server)) log.info({ shard, server }, "store connected");
      for (const detail of warnings) if (isNew(detail)) log.warn({ shard, detail }, "store warning");
    },
    storeShardGone(shard) {
      reasons.delete(shard);
      sightings.gone(shard);
    },
  };
}

function logChange(log: Logger, { shard, from, to, cause, detail, lastedMs }: StateChange): void {
  const facts = { shard, before: from, lastedMs: Math.round(lastedMs), cause, detail: detail || undefined };
  if (cause === "forgot") log.warn(facts, "store may have lost counts");
  else if (to === "up") log.info(facts, "store up");
  else if (to === "slow") log.warn(facts, "store slow");
  else if (to === "away") log.warn(facts, "store away");
  else log.warn(facts, "store returned");
}
