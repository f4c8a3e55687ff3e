// Watches the store's clock, which is a wall clock, by the monotonic clock of this thread. Each answer says that the
// store's clock had a reading at some instant between sending and receiving.

/** No clock is supposed to run faster or slower than this. */
export const drift = 0.01;
/** Returns an age in microseconds that is certain: a clock that runs fast makes it look older than it is. */
export function certainAgeUs(ageMs: number): number {
  return Math.max(0, Math.floor((ageMs * 1000) / (1 + drift)));
}

/** What is below cannot be told from delays in this process. */
const toleranceMs = 20;

export class ClockWatch {
  // The store's clock minus ours: at `#atMs` it was within these bounds.
  #leastMs = Number.NEGATIVE_INFINITY;
  #mostMs = Number.POSITIVE_INFINITY;
  #atMs = 0;

  /**
   * Compares an answer with those before. `forward`: the clock was set forward, so that something has expired too early.
   * `back`: it was set back.
   */
  observe(sentMs: number, receivedMs: number, timeUs: number): "steady" | "forward" | "back" {
    const timeMs = timeUs / 1000;
    const leastMs = timeMs - receivedMs;
    const mostMs = timeMs - sentMs;
    const widerMs = drift * Math.max(0, receivedMs - this.#atMs) + toleranceMs;
    const step = leastMs > this.#mostMs + widerMs ? "forward" : mostMs < this.#leastMs - widerMs ? "back" : "steady";
    // What was known before narrows what an answer says that took long.
    const age = drift * Math.max(0, receivedMs - this.#atMs);
    this.#leastMs = step === "steady" ? Math.max(leastMs, Math.min(this.#leastMs - age, mostMs)) : leastMs;
    this.#mostMs = step === "steady" ? Math.min(mostMs, Math.max(this.#mostMs + age, leastMs)) : mostMs;
    this.#atMs = receivedMs;
    return step;
  }

  /** What the store's clock shows at least, in milliseconds since 1970; null if it has not been seen. */
  wallMs(nowMs: number): number | null {
    return Number.isFinite(this.#leastMs) ? nowMs + this.#leastMs : null;
  }

  /** Another server has another clock. */
  forget(): void {
    this.#leastMs = Number.NEGATIVE_INFINITY;
    this.#mostMs = Number.POSITIVE_INFINITY;
  }
}
