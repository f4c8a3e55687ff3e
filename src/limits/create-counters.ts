// Makes the counters of a policy, or continues those of the same policy before a reload.
import type { Clock } from "../core/clock.ts";
import type { Policy } from "../core/policy.ts";
import { CalendarCounters } from "./calendar-counters.ts";
import { ConcurrencyCounters } from "./concurrency-counters.ts";
import type { Counters } from "./counters.ts";
import { SlidingCounters } from "./sliding-counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { rulesOf } from "./table/slot-rules.ts";

/** `slot`: of the policy in the table. `previous`: of the policy that this one continues after a reload; null if none. */
export function createCounters(
  policy: Policy,
  table: CounterTable,
  slot: number,
  clock: Clock,
  previous: Counters | null,
): Counters {
  const { rate } = policy;
  const rules = rulesOf(policy);
  switch (rate.kind) {
    case "sliding":
      return new SlidingCounters(table, slot, rules, previous instanceof SlidingCounters ? previous : null);
    case "calendar":
      return new CalendarCounters(
        table,
        slot,
        rules,
        rate,
        clock,
        previous instanceof CalendarCounters ? previous : null,
      );
    case "concurrency":
      return new ConcurrencyCounters(table, slot, rules);
  }
}
