// Refusals that spend no quota (no route, an ambiguous path outside of all routes, bytes that are not HTTP) would be free
// of charge without end. Each client has a budget for them.

export interface RefusalBudget {
  /** Returns whether the client has had all its refusals. Does not count. */
  isSpent(client: string, nowMs: number): boolean;
  /** Counts a refusal. */
  spend(client: string, nowMs: number): void;
}
