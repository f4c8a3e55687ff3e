// Computes how many requests a policy admits, for warnings: whether its limit can refuse anybody, and whether it bounds a
// client that invents keys of another policy.
import type { Policy, Rate } from "../core/policy.ts";
import { formatDuration } from "./units.ts";
import { wideShare } from "./wide-networks.ts";

/** Beyond it, a limit protects nothing: one gateway serves hardly more, and no upstream needs that much of one client. */
export const mostPerSecond = 10_000;

/** A policy by client bounds invented keys if a client gets at most so many times what a key may get. */
export const mostTimes = 100;

/** A policy with values that are computed once, because lists of networks can be long. */
export interface RatedPolicy extends Policy {
  /** Null for a concurrency, which has no window. */
  readonly windowMs: number | null;
  /** The most that a key may get in a window. An override for a part of the internet speaks for everybody. */
  readonly mostRequests: number;
  /** How much of the internet is exempt, in words; null: a 64th at most. */
  readonly exemptShare: string | null;
}

export function rated(policy: Policy): RatedPolicy {
  const wide = policy.overrides.filter(({ part, value }) => part === "client" && wideShare([value]) !== null);
  return {
    ...policy,
    windowMs: windowMsOf(policy.rate),
    mostRequests: requestsOf(policy, Math.max(policy.limit, ...wide.map(({ limit }) => limit))),
    exemptShare: wideShare(policy.exempt),
  };
}

const dayMs = 86_400_000;

/** A month is as short as it can be. */
const periodMs = { minute: 60_000, hour: 3_600_000, day: dayMs, month: 28 * dayMs } as const;

function windowMsOf(rate: Rate): number | null {
  switch (rate.kind) {
    case "sliding":
      return rate.windowMs;
    case "calendar":
      return periodMs[rate.per];
    case "concurrency":
      return null;
  }
}

/** How many requests fit into the limit. */
export function requestsOf({ cost }: Policy, limit: number): number {
  return Math.floor(limit / cost);
}

/** Such as "100 requests in 1m", for messages. */
export function rateInWords({ rate, mostRequests }: RatedPolicy): string {
  const requests = `${mostRequests} request${mostRequests === 1 ? "" : "s"}`;
  switch (rate.kind) {
    case "sliding":
      return `${requests} in ${formatDuration(rate.windowMs)}`;
    case "calendar":
      return `${requests} per ${rate.per}`;
    case "concurrency":
      return `${requests} at once`;
  }
}

/** Returns whether clients ever send more than the limit. */
export function canRefuse({ windowMs, mostRequests }: RatedPolicy): boolean {
  return mostRequests <= mostPerSecond * (windowMs === null ? 1 : windowMs / 1000);
}

/** Returns whether a key of `outer` gets, in a window of `outer`, at most `mostTimes` what a key of `inner` gets in it. */
export function isComparable(outer: RatedPolicy, inner: RatedPolicy): boolean {
  // A concurrency has no number of requests in a time to compare with.
  if (outer.windowMs !== null && inner.windowMs === null) return true;
  const isTimed = outer.windowMs !== null && inner.windowMs !== null;
  const windows = isTimed ? Math.max(1, Math.ceil(outer.windowMs / inner.windowMs)) : 1;
  return outer.mostRequests <= mostTimes * requestsOf(inner, inner.limit) * windows;
}
