// Policies for tests.
import { CounterKey } from "../../src/core/counter-key.ts";
import type { CounterFigures, PolicyCounterFigures, PolicyStats } from "../../src/core/limiter.ts";
import type { Decision, Policy } from "../../src/core/policy.ts";

interface SlidingOptions extends Partial<Omit<Policy, "rate">> {
  readonly limit: number;
  readonly windowMs: number;
}

/** A sliding window by client, as the one of the default configuration. */
export function slidingPolicy({ windowMs, ...options }: SlidingOptions): Policy {
  return {
    name: "per-ip",
    rate: { kind: "sliding", windowMs },
    cost: 1,
    key: [{ kind: "client" }],
    match: { paths: [], methods: [] },
    who: null,
    chargeStatuses: null,
    mode: "enforce",
    exempt: [],
    overrides: [],
    ...options,
  };
}

/** The key of decisions that were not made by a limiter. */
const someKey = new CounterKey(0, 0, 0xffff, 0xc0000201, true);

/** A decision about one request that is not held. */
export function decisionOf(decision: Pick<Decision, "outcome" | "policy" | "remaining" | "resetMs">): Decision {
  return {
    key: someKey,
    client: someKey,
    limit: decision.policy.limit,
    held: null,
    lasting: null,
    others: null,
    ...decision,
  };
}

export function statsOf(policy: Policy, stats: Partial<PolicyStats> = {}): PolicyStats {
  return {
    policy,
    outcomes: { admitted: 0, throttled: 0, would_throttle: 0, exempt: 0, observed: 0, unavailable: 0 },
    ...stats,
  };
}

/** An empty table, but for what is said of one policy. */
export function figuresOf({ name }: Policy, figures: Partial<PolicyCounterFigures> = {}): CounterFigures {
  const none = { keys: 0, coarse: 0, merged: 0, forgiven: 0, evictedExpired: 0, evictedLive: 0 };
  return { usedBytes: 0, freeBytes: 1_000_000, policies: [{ policy: name, ...none, ...figures }] };
}
