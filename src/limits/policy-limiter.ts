// The limiter of the configured policies.
import { type Clock, systemClock } from "../core/clock.ts";
import type { Limiter, PolicyStats } from "../core/limiter.ts";
import type { Decision, Outcome, Policy } from "../core/policy.ts";
import type { ParsedRequest } from "../core/request-head.ts";
import type { Counters } from "./counters.ts";
import { createCounters } from "./create-counters.ts";

export class PolicyLimiter implements Limiter {
  readonly needsIdentity = false;
  readonly #policy: Policy;
  readonly #counters: Counters;
  readonly #outcomes: Record<Outcome, number> = {
    admitted: 0,
    throttled: 0,
    would_throttle: 0,
    exempt: 0,
    observed: 0,
  };

  constructor(policies: readonly Policy[], { clock = systemClock }: { readonly clock?: Clock } = {}) {
    const [policy] = policies;
    if (policy === undefined) throw new Error("the definition accepts exactly one policy");
    this.#policy = policy;
    this.#counters = createCounters(policy, clock, null);
  }

  acquire({ client }: ParsedRequest, _head: unknown, nowMs: number): Decision {
    const { limit, cost } = this.#policy;
    const isAdmitted = this.#counters.ask(client, limit, cost, nowMs);
    if (isAdmitted) this.#counters.charge();
    return this.#count(this.#decision(isAdmitted ? "admitted" : "throttled", client));
  }

  acquireIdentified(_request: unknown, _head: unknown, _identity: unknown, first: Decision): Decision {
    return first;
  }

  peek(client: string, nowMs: number): Decision {
    this.#counters.peek(client, this.#policy.limit, nowMs);
    return this.#decision("observed", client);
  }

  observe(client: string, nowMs: number): Decision {
    return this.#count(this.peek(client, nowMs));
  }

  refresh({ key }: Decision, nowMs: number): Decision {
    return this.peek(key, nowMs);
  }

  stats(): readonly PolicyStats[] {
    return [{ policy: this.#policy, outcomes: this.#outcomes, ...this.#counters.stats() }];
  }

  #decision(outcome: Outcome, key: string): Decision {
    const policy = this.#policy;
    const { remaining, resetMs } = this.#counters;
    return { outcome, policy, key, limit: policy.limit, remaining, resetMs, held: null, others: null };
  }

  #count(decision: Decision): Decision {
    this.#outcomes[decision.outcome] += 1;
    return decision;
  }
}
