// The only file of the gateway that reads a clock. Decisions use the monotonic clock only, so a step of the wall clock
// does not change them; the wall clock serves to render an instant for people and in RateLimit-Reset.

export interface MonotonicClock {
  /** Returns milliseconds since an arbitrary start, with fractions; never goes back. */
  monotonicMs(): number;
}

export interface WallClock {
  /** Returns whole Unix milliseconds, rounded up, because an instant rendered from them must not be early. May step. */
  wallMs(): number;
}

export interface Clock extends MonotonicClock, WallClock {
  /**
   * Returns `wallMs` at a recent instant of the monotonic clock. Costs less, and notices a step within 50 ms. Exact also if the
   * process has not run for some time since that instant.
   */
  wallMsAt(monotonicMs: number): number;
}

/** Node defines the global by a getter, which takes half as long as the reading itself. */
const { performance: timer } = globalThis;

/** For so long, both clocks are assumed to run at the same rate. Reading the wall clock takes half as long as a decision. */
const wallReadingMs = 50;

/** If the process did not run for longer between the readings of the two clocks, they are read again. */
const maxPauseMs = 1;
const maxReadings = 5;

// Date.now() drops the fraction; a Reset made from it would be up to a millisecond early.
const wallMs = (): number => Date.now() + 1;

const monotonicMs = (): number => timer.now();

export const systemClock: Clock = { monotonicMs, wallMs, wallMsAt: createWallMsAt(monotonicMs) };

/** Each clock has a reading of its own, because the monotonic time of another clock has another start. */
function createWallMsAt(monotonicMs: () => number): Clock["wallMsAt"] {
  const last = { wallMs: 0, atMs: Number.NEGATIVE_INFINITY };
  return (instantMs) => {
    // Less than 0 for an instant before that of the reading.
    const passedMs = instantMs - last.atMs;
    if (passedMs >= wallReadingMs || passedMs <= -wallReadingMs) {
      for (let readings = 0; readings < maxReadings; readings += 1) {
        last.atMs = monotonicMs();
        last.wallMs = wallMs();
        if (monotonicMs() - last.atMs <= maxPauseMs) break;
      }
    }
    return Math.ceil(last.wallMs + (instantMs - last.atMs));
  };
}

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
  const ofMainMs = (): number => timer.now() + aheadMs;
  return { monotonicMs: ofMainMs, wallMs, wallMsAt: createWallMsAt(ofMainMs) };
}

/** Renders an instant as in the Date header (RFC 9110, 5.6.7). */
export function httpDate(wallMs: number): string {
  return new Date(wallMs).toUTCString();
}

const imfFixdate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Whether the text has the form that senders must use (RFC 9110, 5.6.7). Date.parse finds a year in almost any text. */
export function isImfFixdate(text: string): boolean {
  return imfFixdate.test(text);
}
