// Makes the counters of a policy, or continues those of the same policy before a reload.
import type { Policy } from "../core/policy.ts";
import { CalendarCounters, type PeriodClock } from "./calendar-counters.ts";
import { allUnits, ChargedCounters } from "./charged-counters.ts";
import { ConcurrencyCounters } from "./concurrency-counters.ts";
import type { Counters, LocalCounters } from "./counters.ts";
import { SlidingCounters } from "./sliding-counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { rulesOf } from "./table/slot-rules.ts";

/** `slot`: of the policy in the table. `previous`: of the policy that this one continues after a reload; null if none. */
export function createCounters(
  policy: Policy,
  table: CounterTable,
  slot: number,
  clock: PeriodClock,
  previous: Counters | null,
): LocalCounters {
  const { rate, chargeStatuses } = policy;
  const rules = rulesOf(policy);
  if (rate.kind === "concurrency") return new ConcurrencyCounters(table, slot, rules);
  const before = allUnits(previous);
  const all =
    rate.kind === "sliding"
      ? new SlidingCounters(table, slot, rules, before instanceof SlidingCounters ? before : null)
      : new CalendarCounters(table, slot, rules, rate, clock, before instanceof CalendarCounters ? before : null);
  return chargeStatuses === null ? all : new ChargedCounters(all, table, slot);
}
