// Policies for tests.
import type { PolicyStats } from "../../src/core/limiter.ts";
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
    chargeStatuses: null,
    mode: "enforce",
    exempt: [],
    overrides: [],
    maxClients: 1_000,
    ...options,
  };
}

/** A decision about one request that is not held. */
export function decisionOf(decision: Pick<Decision, "outcome" | "policy" | "remaining" | "resetMs">): Decision {
  return { key: "", limit: decision.policy.limit, held: null, others: null, ...decision };
}

export function statsOf(policy: Policy, stats: Partial<PolicyStats> = {}): PolicyStats {
  return {
    policy,
    outcomes: { admitted: 0, throttled: 0, would_throttle: 0, exempt: 0, observed: 0 },
    clients: 0,
    capacity: policy.maxClients,
    evictedExpired: 0,
    evictedLive: 0,
    ...stats,
  };
}
