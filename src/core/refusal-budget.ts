// The budget of each client for refusals that spend no quota: no route, an ambiguous path outside of all routes, bytes
// that are not HTTP. Without it, a client could cause any number of them.

export interface RefusalBudget {
  /** Returns whether the budget of the client is used up. Takes nothing from it. */
  isSpent(client: string, nowMs: number): boolean;
  /** Takes a refusal from the budget. */
  spend(client: string, nowMs: number): void;
}
