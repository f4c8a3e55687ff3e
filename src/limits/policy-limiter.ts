// The limiter of the configured policies.
import type { Limiter, PolicyStats } from "../core/limiter.ts";
import type { Decision, Outcome, Policy } from "../core/policy.ts";
import type { ParsedRequest } from "../core/request-head.ts";
import { MemoryLimiter, type WindowDecision } from "./memory-limiter.ts";

export class PolicyLimiter implements Limiter {
  readonly needsIdentity = false;
  readonly #policy: Policy;
  readonly #table: MemoryLimiter;
  readonly #outcomes: Record<Outcome, number> = {
    admitted: 0,
    throttled: 0,
    would_throttle: 0,
    exempt: 0,
    observed: 0,
  };

  constructor(policies: readonly Policy[]) {
    const [policy] = policies;
    if (policy?.rate.kind !== "sliding") throw new Error("the definition accepts exactly one sliding policy");
    this.#policy = policy;
    const { name, rate, limit, maxClients } = policy;
    this.#table = new MemoryLimiter({ name, limit, windowMs: rate.windowMs, maxClients });
  }

  acquire({ client }: ParsedRequest, _head: unknown, nowMs: number): Decision {
    return this.#count(this.#decision(client, this.#table.acquire(client, nowMs)));
  }

  acquireIdentified(_request: unknown, _head: unknown, _identity: unknown, first: Decision): Decision {
    return first;
  }

  peek(client: string, nowMs: number): Decision {
    return this.#decision(client, this.#table.peek(client, nowMs));
  }

  observe(client: string, nowMs: number): Decision {
    return this.#count(this.peek(client, nowMs));
  }

  refresh({ key }: Decision, nowMs: number): Decision {
    return this.peek(key, nowMs);
  }

  stats(): readonly PolicyStats[] {
    return [{ policy: this.#policy, outcomes: this.#outcomes, ...this.#table.stats() }];
  }

  #decision(key: string, { outcome, remaining, resetMs }: WindowDecision): Decision {
    const policy = this.#policy;
    return { outcome, policy, key, limit: policy.limit, remaining, resetMs, held: null, others: null };
  }

  #count(decision: Decision): Decision {
    this.#outcomes[decision.outcome] += 1;
    return decision;
  }
}
