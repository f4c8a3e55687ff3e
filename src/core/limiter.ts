// Where admissions are counted. A local store answers at once; a shared one answers with a promise. The suite in
// test/limits/limiter.contract.ts says what every store must keep.
import type { Decision, Policy } from "./policy.ts";

export interface Limiter {
  readonly policy: Policy;
  /** Charges one request to the client's window, or throttles and charges nothing. */
  acquire(client: string, nowMs: number): Decision | Promise<Decision>;
  /** Looks without charging; the outcome is `observed`. */
  peek(client: string, nowMs: number): Decision | Promise<Decision>;
  /** Figures for the metrics. */
  stats(): LimiterStats;
}

export interface LimiterStats {
  /** Clients remembered now. */
  readonly clients: number;
  readonly capacity: number;
  /** Forgotten so far because nothing of theirs counted any more. */
  readonly evictedExpired: number;
  /** Forgotten so far although something still counted, because the store was full. */
  readonly evictedLive: number;
}
