// The periods of a calendar policy by the clocks of the shards: one that is set forward must not begin a period for the
// keys of the others. A clock that goes back begins none.
import { createCalendar, type NextBorder } from "../../core/calendar.ts";
import type { Policy, Rate } from "../../core/policy.ts";
import { longestCountMs } from "./policy-rules.ts";

export class CalendarPeriods {
  readonly #nextBorder: NextBorder;
  readonly #longestMs: number;
  /** In milliseconds since 1970, by shard. */
  readonly #endsMs = new Map<number, number>();

  /** Throws a RangeError if the runtime does not know the time zone. */
  constructor({ per, timezone }: Extract<Rate, { kind: "calendar" }>, longestMs: number) {
    this.#nextBorder = createCalendar(per, timezone);
    this.#longestMs = longestMs;
  }

  /** Returns when the period ends that a shard's clock is in. */
  endMs(shard: number, wallMs: number): number {
    const endMs = this.#endsMs.get(shard) ?? 0;
    if (wallMs < endMs && endMs - wallMs <= 2 * this.#longestMs) return endMs;
    const nextMs = this.#nextBorder(wallMs);
    this.#endsMs.set(shard, nextMs);
    return nextMs;
  }

  /** A shard has said that this period is over. */
  over(shard: number, endMs: number): void {
    if (this.#endsMs.get(shard) === endMs) this.#endsMs.set(shard, this.#nextBorder(endMs));
  }
}

/** Null if the policy has no calendar. */
export function calendarOf(policy: Policy): CalendarPeriods | null {
  const { rate } = policy;
  return rate.kind === "calendar" ? new CalendarPeriods(rate, longestCountMs(policy)) : null;
}
