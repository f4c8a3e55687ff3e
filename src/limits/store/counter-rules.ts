// How the units of a policy are counted in the store, and what gateways call it.
import type { KeyPart, Policy } from "../../core/policy.ts";
import { leasedAheadFrom, type SharedStoreSettings } from "../../core/store-link.ts";
import { longestPeriodMs } from "../calendar.ts";
import type { CounterItem } from "./script-call.ts";

/** How the units of a counter are counted, as the policy says now. */
export type CounterRules = Pick<
  CounterItem,
  "item" | "limit" | "windowUs" | "fromUs" | "untilUs" | "leaseUs" | "step"
> & {
  /** For how long a grant may be spent after it was asked for. */
  readonly spendMs: number;
  /** Whether units are leased before a request needs them. */
  readonly isAhead: boolean;
  /** Whether each request has a lease of its own, because its units may be given back when it ends. */
  readonly isByRequest: boolean;
};

/** A lease is this part of a window at most, because what was spent early counts as if it was spent last. */
const leasesInWindow = 50;
/**
 * A thread may be busy for this long between asking and charging, as long as that is a small part of the window: a unit
 * counts as if it was spent then.
 */
const longestPauseMs = 100;
const pausesInWindow = 200;
/** A slot is counted for this long after the gateway that holds it was heard last. */
export const slotLeaseMs = 10_000;
/** A thousandth of the window, in milliseconds a microsecond: clocks that are disciplined differ by less. */
export const clockError = 1e-6;
/** What is known of the store's clock differs by less from one answer to the next. */
export const borderErrorMs = 20;
/** Units of a calendar can be given back for this long. Then they are spent, for the rest of the period. */
const returnMs = 60_000;

/** `isByRequest`: units may be given back when the request ends. `untilMs`: the end of a calendar's period. */
export function counterRulesOf(
  { rate, cost }: Policy,
  { limit, isByRequest, untilMs }: { limit: number; isByRequest: boolean; untilMs: number },
  { waitMs, lease }: SharedStoreSettings,
): CounterRules {
  const isAhead = limit >= leasedAheadFrom && !isByRequest;
  const windowMs = rate.kind === "sliding" ? rate.windowMs : Number.POSITIVE_INFINITY;
  // An answer that comes in time leaves the request some time to be charged, even if this thread is busy meanwhile.
  const shortestMs = Math.max(1.5 * waitMs, Math.min(longestPauseMs, windowMs / pausesInWindow));
  const aheadMs = Math.max(shortestMs, Math.min(lease.durationMs, windowMs / leasesInWindow));
  const spendMs = isAhead ? aheadMs : shortestMs;
  const leaseMs = rate.kind === "concurrency" ? slotLeaseMs : rate.kind === "calendar" ? returnMs : spendMs;
  return {
    ...{ item: rate.kind, limit, step: cost, spendMs, isAhead, isByRequest },
    windowUs: rate.kind === "sliding" ? Math.ceil(rate.windowMs * 1000) : 0,
    // The beginning is not checked: a clock that is set back to before it must not end the period.
    fromUs: 0,
    untilUs: rate.kind === "calendar" ? untilMs * 1000 : 0,
    leaseUs: Math.ceil(leaseMs * 1000),
  };
}

/** How long a request counts at most. */
export function longestCountMs({ rate }: Policy): number {
  switch (rate.kind) {
    case "sliding":
      return rate.windowMs;
    case "calendar":
      return longestPeriodMs[rate.per];
    case "concurrency":
      return slotLeaseMs;
  }
}

const letters = { sliding: "s", calendar: "c", concurrency: "n" } as const;

/** Returns what gateways call a policy. */
export function policyText({ name, rate, key }: Pick<Policy, "name" | "rate" | "key">): string {
  return `${letters[rate.kind]}/${name}/${key.map(partText).join("+")}`;
}

function partText(part: KeyPart): string {
  return part.kind === "header" || part.kind === "claim" ? `${part.kind}:${part.name}` : part.kind;
}
