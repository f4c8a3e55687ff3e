// How many requests a policy admits, as far as warnings compare policies: whether its limit can refuse anybody, and whether
// it keeps a client that invents keys near the limit of another policy.
import type { Policy, Rate } from "../core/policy.ts";
import { formatDuration } from "./units.ts";
import { wideShare } from "./wide-networks.ts";

/** Beyond it, a limit protects nothing: one gateway serves hardly more, and no upstream needs that much of one client. */
export const mostPerSecond = 10_000;

/** A policy by client bounds invented keys if a client gets at most so many times what a key may get. */
export const mostTimes = 100;

const dayMs = 86_400_000;

/** A month is as short as it can be. */
const periodMs = { minute: 60_000, hour: 3_600_000, day: dayMs, month: 28 * dayMs } as const;

/** Null for a concurrency, which has no window. */
export function windowMsOf(rate: Rate): number | null {
  switch (rate.kind) {
    case "sliding":
      return rate.windowMs;
    case "calendar":
      return periodMs[rate.per];
    case "concurrency":
      return null;
  }
}

/** Such as "100 in 60s", for messages. */
export function describeRate(policy: Policy): string {
  const { rate } = policy;
  const most = mostRequests(policy);
  const requests = `${most} request${most === 1 ? "" : "s"}`;
  switch (rate.kind) {
    case "sliding":
      return `${requests} in ${formatDuration(rate.windowMs)}`;
    case "calendar":
      return `${requests} per ${rate.per}`;
    case "concurrency":
      return `${requests} at once`;
  }
}

/** Whether the limit is one that a client reaches. */
export function canRefuse(policy: Policy): boolean {
  const windowMs = windowMsOf(policy.rate);
  return mostRequests(policy) <= mostPerSecond * (windowMs === null ? 1 : windowMs / 1000);
}

/** Whether a key of `outer` gets at most `mostTimes` what a key of `inner` may get in the same time: a window of `outer`. */
export function isComparable(outer: Policy, inner: Policy): boolean {
  const [outerMs, innerMs] = [windowMsOf(outer.rate), windowMsOf(inner.rate)];
  // What is under way at once says nothing of requests in a time.
  if (outerMs !== null && innerMs === null) return true;
  const windows = outerMs === null || innerMs === null ? 1 : Math.max(1, Math.ceil(outerMs / innerMs));
  return mostRequests(outer) <= mostTimes * requestsOf(inner, inner.limit) * windows;
}

/** Of one key in a window. An override for a part of the internet speaks for everybody. */
function mostRequests(policy: Policy): number {
  const wide = policy.overrides.filter(({ part, value }) => part === "client" && wideShare([value]) !== null);
  return requestsOf(policy, Math.max(policy.limit, ...wide.map(({ limit }) => limit)));
}

function requestsOf({ cost }: Policy, limit: number): number {
  return Math.floor(limit / cost);
}
