// What is allowed, and what came of asking. Shared by everything that counts, answers or reports.

export interface Policy {
  readonly name: string;
  /** Requests admitted in any trailing window. */
  readonly limit: number;
  readonly windowMs: number;
  /** How many clients are remembered at once; the bound of the store's memory. */
  readonly maxClients: number;
}

/**
 * `admitted`: one request was charged. `throttled`: the limit was reached and nothing was charged.
 * `observed`: only looked at (a request outside every limited scope), nothing was charged.
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
