// How the units of a policy are counted in the store, what gateways call it, and when its periods of a calendar begin
// by the clocks of the shards.
import { keyPartText, type Policy, periodLengths, type Rate } from "../../core/policy.ts";
import { leasedAheadFrom, type SharedStoreSettings } from "../../core/store-link.ts";
import {
  type ClockReading,
  createCalendar,
  latestWallMs,
  type NextBorder,
  noPeriod,
  type PeriodEnd,
  periodEndAt,
  untilEndMs,
  untilResetMs,
} from "../calendar.ts";
import type { CalendarPeriod } from "../table/counter-table.ts";
import type { CounterItem } from "./script-call.ts";

/** How the units of a counter are counted, as the policy says now. */
export type CounterRules = Pick<
  CounterItem,
  "item" | "limit" | "windowUs" | "untilUs" | "keepUs" | "leaseUs" | "step"
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
/**
 * The key of a period stays so long after it, or as long as a period, if that is less: so about two keys of a client stand.
 * A clock that is set forward by less, and back again, finds what was counted.
 */
const longestKeepMs = 3_600_000;

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
    untilUs: rate.kind === "calendar" ? untilMs * 1000 : 0,
    keepUs: rate.kind === "calendar" ? Math.min(longestKeepMs, periodLengths[rate.per].longestMs) * 1000 : 0,
    leaseUs: Math.ceil(leaseMs * 1000),
  };
}

/** How long a request counts at most. */
export function longestCountMs({ rate }: Policy): number {
  switch (rate.kind) {
    case "sliding":
      return rate.windowMs;
    case "calendar":
      return periodLengths[rate.per].longestMs;
    case "concurrency":
      return slotLeaseMs;
  }
}

/** How long a key stays in the store at most, if nothing is asked of it after it was made: see `keepUntil` in script.ts. */
export function longestStayMs(policy: Policy, { windowUs, leaseUs, keepUs }: CounterRules): number {
  if (policy.rate.kind === "calendar") return longestCountMs(policy) + keepUs / 1000;
  return ((windowUs + leaseUs) * 9) / 8000 + 2000;
}

const letters = { sliding: "s", calendar: "c", concurrency: "n" } as const;

/** Returns what gateways call a policy. */
export function policyText({ name, rate, key }: Pick<Policy, "name" | "rate" | "key">): string {
  return `${letters[rate.kind]}/${name}/${key.map(keyPartText).join("+")}`;
}

/**
 * The periods of a calendar policy by the clocks of the shards: one that is set forward must not begin a period for the
 * keys of the others. No period begins again: see ../calendar.ts. A thread that does not know a shard yet begins with
 * the period of the table, which other threads or a process before this one may have begun. By shard, with the calendar
 * that they are of, and the monotonic instant at which this thread saw the period begin. Outlives reloads.
 */
export type ShardPeriods = Map<
  number,
  { readonly calendar: string; readonly end: PeriodEnd; readonly beganMs: number }
>;

export class CalendarPeriods {
  readonly #calendar: string;
  readonly #nextBorder: NextBorder;
  readonly #longestMs: number;
  readonly #byShard: ShardPeriods;
  readonly #ofTable: PeriodEnd & Partial<Pick<CalendarPeriod, "isGuess">>;
  readonly #wallMs: () => number;

  /** `wallMs`: the clock of other shards, or that of this machine. Throws a RangeError for an unknown time zone. */
  constructor(
    { per, timezone }: Extract<Rate, { readonly kind: "calendar" }>,
    byShard: ShardPeriods,
    ofTable: PeriodEnd & Partial<Pick<CalendarPeriod, "isGuess">>,
    wallMs: () => number,
  ) {
    this.#calendar = `${per} ${timezone}`;
    this.#nextBorder = createCalendar(per, timezone);
    this.#longestMs = periodLengths[per].longestMs;
    this.#byShard = byShard;
    this.#ofTable = ofTable;
    this.#wallMs = wallMs;
  }

  /** Returns when the period ends that a shard is in. `shardMs`: its clock; null if that is not known. */
  endMs(shard: number, shardMs: number | null, nowMs: number): number {
    return this.#at(shard, shardMs, nowMs).end.endMs;
  }

  /** Returns how long that period still lasts. */
  untilResetMs(shard: number, shardMs: number | null, nowMs: number): number {
    const { end, wallMs } = this.#at(shard, shardMs, nowMs);
    return untilResetMs(end, wallMs, nowMs);
  }

  #at(shard: number, shardMs: number | null, nowMs: number): { readonly end: PeriodEnd; readonly wallMs: number } {
    const before = this.#byShard.get(shard)?.end;
    // Until a new server has answered, its clock is assumed to show what the clock of the previous server would.
    const wallMs = shardMs ?? (before === undefined ? this.#wallMs() : before.endMs - (before.dueMs - nowMs));
    const end = this.#endOf(shard, wallMs, nowMs);
    // By another clock, the shard would be in a period of its own from now on.
    if (shardMs === null && before === undefined) this.#byShard.delete(shard);
    return { end, wallMs };
  }

  /** A shard has said that the period which ends then is over. */
  over(shard: number, endMs: number, nowMs: number): void {
    const known = this.#byShard.get(shard);
    if (known?.calendar !== this.#calendar || known.end.endMs !== endMs) return;
    this.#begin(shard, known.end, { wallMs: endMs, nowMs });
  }

  #endOf(shard: number, wallMs: number, nowMs: number): PeriodEnd {
    const known = this.#byShard.get(shard);
    const before = known?.end ?? (this.#ofTable.isGuess === true ? noPeriod : this.#ofTable);
    const isOfCalendar =
      known === undefined ? before.dueMs - nowMs <= this.#longestMs : known.calendar === this.#calendar;
    if (!isOfCalendar || untilEndMs(before, wallMs, nowMs) <= 0) return this.#begin(shard, before, { wallMs, nowMs });
    return known === undefined ? this.#set(shard, before, Number.NEGATIVE_INFINITY) : before;
  }

  #begin(shard: number, before: PeriodEnd, reading: ClockReading): PeriodEnd {
    const latestMs = latestWallMs(before, reading);
    const beganMs = this.#byShard.has(shard) ? reading.nowMs : Number.NEGATIVE_INFINITY;
    return this.#set(shard, periodEndAt(this.#nextBorder, this.#longestMs, latestMs, reading), beganMs);
  }

  /** That of the table changes, so it is copied. */
  #set(shard: number, { endMs, dueMs, lastMs }: PeriodEnd, beganMs: number): PeriodEnd {
    const end = { endMs, dueMs, lastMs };
    this.#byShard.set(shard, { calendar: this.#calendar, end, beganMs });
    return end;
  }
}
