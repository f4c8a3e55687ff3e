// Makes the counters of a policy, or continues those of the same policy before a reload.
import type { Clock } from "../core/clock.ts";
import type { Policy } from "../core/policy.ts";
import { CalendarCounters } from "./calendar-counters.ts";
import { ConcurrencyCounters } from "./concurrency-counters.ts";
import type { Counters } from "./counters.ts";
import { SlidingCounters } from "./sliding-counters.ts";

/** `previous`: the counters to continue; those of a policy that this one continues. */
export function createCounters({ rate, maxClients }: Policy, clock: Clock, previous: Counters | null): Counters {
  switch (rate.kind) {
    case "sliding":
      return new SlidingCounters(rate.windowMs, maxClients, previous instanceof SlidingCounters ? previous : null);
    case "calendar":
      return new CalendarCounters(rate, maxClients, clock, previous instanceof CalendarCounters ? previous : null);
    case "concurrency":
      return new ConcurrencyCounters(maxClients, previous instanceof ConcurrencyCounters ? previous : null);
  }
}
