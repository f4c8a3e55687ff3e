// Counts admissions. A local store answers at once, a shared one with a promise. test/limits/limiter.contract.ts tests
// what every store guarantees.
import type { Decision, Policy } from "./policy.ts";

export interface Limiter {
  readonly policy: Policy;
  /** Charges one request to the client's window, or throttles it and charges nothing. */
  acquire(client: string, nowMs: number): Decision | Promise<Decision>;
  /** Returns the quota without charging; the outcome is `observed`. */
  peek(client: string, nowMs: number): Decision | Promise<Decision>;
  stats(): LimiterStats;
}

export interface LimiterStats {
  /** Clients in the store. */
  readonly clients: number;
  readonly capacity: number;
  /** Clients that were evicted because their requests no longer counted. */
  readonly evictedExpired: number;
  /** Clients that were evicted although some of their requests still counted, because the store was full. */
  readonly evictedLive: number;
}
