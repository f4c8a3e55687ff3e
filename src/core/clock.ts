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

/**
 * Returns the offset of `performance.now()` in this thread to a clock that all threads of the process share, in
 * milliseconds. Each thread's `performance.now()` begins at the thread's start.
 */
export function monotonicOffsetMs(): number {
  // A pause between the readings would be part of the result, so the shortest of a few measurements counts.
  const measure = (): { readonly widthMs: number; readonly offsetMs: number } => {
    const beforeMs = performance.now();
    const sharedMs = Number(process.hrtime.bigint()) / 1e6;
    const afterMs = performance.now();
    return { widthMs: afterMs - beforeMs, offsetMs: sharedMs - (beforeMs + afterMs) / 2 };
  };
  const measured = Array.from({ length: 20 }, measure).sort((a, b) => a.widthMs - b.widthMs);
  return measured[0]?.offsetMs ?? 0;
}

/** Returns the clock of the main thread, for another thread. `mainOffsetMs`: `monotonicOffsetMs()` of the main thread. */
export function createThreadClock(mainOffsetMs: number): Clock {
  const aheadMs = monotonicOffsetMs() - mainOffsetMs;
  return { ...systemClock, monotonicMs: () => performance.now() + aheadMs };
}

/** Renders an instant as in the Date header (RFC 9110, 5.6.7). */
export function httpDate(wallMs: number): string {
  return new Date(wallMs).toUTCString();
}
