// The only file of the gateway that reads a clock. Decisions use the monotonic clock only, so a step of the wall clock
// does not change them; the wall clock serves to render an instant for people and in RateLimit-Reset.

export interface Clock {
  /** Returns milliseconds since an arbitrary start, with fractions; never goes back. */
  monotonicMs(): number;
  /** Returns Unix milliseconds, not rounded down, because an instant rendered from it must not be early. May step. */
  wallMs(): number;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  // Date.now() drops the fraction; a Reset made from it would be up to a millisecond early.
  wallMs: () => Date.now() + 1,
};

/** Renders an instant as in the Date header (RFC 9110, 5.6.7). */
export function httpDate(wallMs: number): string {
  return new Date(wallMs).toUTCString();
}
