// Makes the counters of a policy by its kind: windows, periods of the calendar, or slots.
import type { Policy } from "../core/policy.ts";
import { CalendarCounters, type PeriodClock } from "./calendar-counters.ts";
import { type LocalCounters, SlidingCounters } from "./counters.ts";
import { ChargedCounters, ConcurrencyCounters } from "./slot-counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { rulesOf } from "./table/key-log.ts";

/** Makes the counters of a policy. `slot`: its number in the table. */
export function createCounters(
  policy: Policy,
  table: CounterTable,
  slot: number,
  clock: PeriodClock,
  rules = rulesOf(policy),
): LocalCounters {
  const { rate, chargeStatuses } = policy;
  if (rate.kind === "concurrency") return new ConcurrencyCounters(table, slot, rules);
  const all =
    rate.kind === "sliding"
      ? new SlidingCounters(table, slot, rules)
      : new CalendarCounters(table, slot, rules, rate, clock);
  return chargeStatuses === null ? all : new ChargedCounters(all, table, slot);
}
