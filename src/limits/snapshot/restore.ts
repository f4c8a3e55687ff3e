// Puts the records of a snapshot into an empty table. The time between writing and reading it has passed for all of
// them, by the wall clock; if that went back, none has. An instant is never moved to an earlier one, so no window admits
// more than its limit, and no period ends because a clock was set back before the snapshot or after it. Records of policies
// that are no longer there are left out.

import { isContinued, periodLengths } from "../../core/policy.ts";
import { createCalendar, type PeriodEnd, periodEndAt } from "../calendar.ts";
import type { PolicySlot } from "../policies.ts";
import { ageOf, tickNow, tickOf } from "../table/key-log.ts";
import type { CounterRecord } from "../table/maintenance.ts";
import type { DescribedPolicy, SnapshotDescription } from "./format.ts";

/** The instant of the restart, by the wall clock and in the table's time. */
interface RestoreTime {
  readonly wallMs: number;
  readonly tableMs: number;
}

/** A period of the calendar that goes on. */
interface ContinuedPeriod {
  readonly slot: number;
  readonly period: number;
  readonly end: PeriodEnd;
}

/** The system's clock reads whole milliseconds, so that up to one less may have passed between two readings. */
const wallClockMs = 1;

export class Restore {
  /** To be put into force before the first record. */
  readonly periods: readonly ContinuedPeriod[];
  /** Time that has passed since the snapshot was written. */
  readonly passedMs: number;
  /** By the slots of the snapshot. */
  readonly #slots: ReadonlyMap<number, ContinuedSlot>;
  readonly #writtenTick: number;
  readonly #tableMs: number;

  constructor(description: SnapshotDescription, policies: readonly PolicySlot[], now: RestoreTime) {
    const slots = description.policies.flatMap((before) => continuedSlot(before, policies, description, now));
    this.#slots = new Map(slots);
    this.periods = slots.flatMap(([, { slot, period }]) => (period === null ? [] : [{ slot, ...period }]));
    this.#writtenTick = tickNow(description.tableMs);
    this.#tableMs = now.tableMs;
    this.passedMs = Math.max(0, now.wallMs - description.wallMs - wallClockMs);
  }

  /** Returns the record as the table of today has it; null if nothing of it counts. */
  record(before: CounterRecord): CounterRecord | null {
    const continued = this.#slots.get(before.slot);
    if (continued === undefined) return null;
    const { slot, windowMs, period } = continued;
    const entries =
      period === null
        ? before.entries.flatMap(([at, units]) => this.#moved(at, units, windowMs))
        : before.entries.filter(([at]) => at === period.period);
    return entries.length === 0 ? null : { ...before, slot, entries };
  }

  #moved(at: number, units: number, windowMs: number): [at: number, units: number][] {
    const ageMs = Math.max(0, ageOf(at, this.#writtenTick)) + this.passedMs;
    return ageMs >= windowMs ? [] : [[tickOf(this.#tableMs - ageMs) >>> 0, units]];
  }
}

interface ContinuedSlot {
  readonly slot: number;
  /** Of a sliding policy. */
  readonly windowMs: number;
  /** Null: the policy is a sliding one. */
  readonly period: Omit<ContinuedPeriod, "slot"> | null;
}

function continuedSlot(
  before: DescribedPolicy,
  policies: readonly PolicySlot[],
  written: RestoreTime,
  now: RestoreTime,
): [slot: number, continued: ContinuedSlot][] {
  const continued = policies.find(({ policy }) => isContinued(policy, before));
  if (continued === undefined) return [];
  const { slot } = continued;
  const { rate } = continued.policy;
  if (rate.kind === "sliding") return [[before.slot, { slot, windowMs: rate.windowMs, period: null }]];
  if (rate.kind !== "calendar" || before.rate.kind !== "calendar") return [];
  const { per, timezone, period, endWallMs } = before.rate;
  const { dueTableMs = written.tableMs + endWallMs - written.wallMs } = before.rate;
  const isSame = per === rate.per && timezone === rate.timezone;
  const isOver = now.wallMs >= endWallMs;
  if (isOver && !isSame) return [];
  // What the calendar showed. The first request ends the period that is over, unless the clock was wrong and is right then.
  const shownMs = endWallMs - (dueTableMs - written.tableMs);
  const latestMs = isOver ? shownMs : Math.max(shownMs, now.wallMs);
  // As by a reload, a new calendar decides when the period that is under way ends.
  const nextBorder = isSame ? () => endWallMs : createCalendar(rate.per, rate.timezone);
  const reading = { wallMs: Math.min(latestMs, now.wallMs), nowMs: now.tableMs };
  const end = periodEndAt(nextBorder, periodLengths[rate.per].longestMs, latestMs, reading);
  return [[before.slot, { slot, windowMs: 0, period: { period, end } }]];
}
