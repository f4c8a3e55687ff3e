// When a thread that has ended is replaced. The first is replaced almost at once, and each one that ends within a minute
// doubles the wait, up to half a minute: a fault that ends every thread costs at most a dozen starts a minute.

const windowMs = 60_000;
const firstDelayMs = 100;
const maxDelayMs = 30_000;

export class Restarts {
  readonly #nowMs: () => number;
  #recentMs: readonly number[] = [];
  /** Since the start. */
  count = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** A thread has ended. Returns how long to wait before another one is started. */
  next(): number {
    const nowMs = this.#nowMs();
    this.count += 1;
    this.#recentMs = [...this.#recentMs.filter((atMs) => nowMs - atMs < windowMs), nowMs].slice(-20);
    return Math.min(maxDelayMs, firstDelayMs * 2 ** (this.#recentMs.length - 1));
  }
}
