/** Returns a decision of a limiter that asks no store, and so makes no promise. */
export function decided<T>(decision: T | Promise<T>): T {
  if (decision instanceof Promise) throw new Error("the decision is made later");
  return decision;
}
