// Time as a parameter. Decisions use the monotonic reading only, so a step of the wall clock changes none of them;
// the wall reading exists to render an instant for people and for RateLimit-Reset. This is the one file of the
// gateway that reads a clock.

export interface Clock {
  /** Milliseconds since an arbitrary start, with fractions; never goes back. */
  monotonicMs(): number;
  /** Unix milliseconds, not rounded down: an instant rendered from it must not be early. May step. */
  wallMs(): number;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  // Date.now() drops the fraction; a Reset made from it would be up to a millisecond early.
  wallMs: () => Date.now() + 1,
};

/** An instant in the form of the Date field (RFC 9110, 5.6.7). */
export function httpDate(wallMs: number): string {
  return new Date(wallMs).toUTCString();
}
