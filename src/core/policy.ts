// The rate limit and the decisions of the limiter, as limits, responses, metrics and the log use them.

export interface Policy {
  readonly name: string;
  /** Requests admitted in any trailing window. */
  readonly limit: number;
  readonly windowMs: number;
  /** Maximum of clients in the store, which bounds its memory. */
  readonly maxClients: number;
}

/**
 * `admitted`: one request was charged. `throttled`: the limit was reached and nothing was charged.
 * `observed`: the quota was read and nothing was charged, as for a request outside of all routes.
 */
export const outcomes = ["admitted", "throttled", "observed"] as const;

export type Outcome = (typeof outcomes)[number];

export interface Decision {
  readonly outcome: Outcome;
  readonly policy: Policy;
  /** Requests left after this one. */
  readonly remaining: number;
  /** The earliest monotonic instant at which more quota becomes available. */
  readonly resetMs: number;
}
