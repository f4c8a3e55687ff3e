// Bounds the work of the admin API: a few calls run at a time, some wait for their turn, and others are refused. Without
// workers, traffic shares the event loop with these calls.

const maxAtOnce = 4;
export const maxWaiting = 64;

export class Turns {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  /** Whether one more call may wait. */
  get hasRoom(): boolean {
    return this.#running < maxAtOnce || this.#waiting.length < maxWaiting;
  }

  async take<T>(work: () => Promise<T> | T): Promise<T> {
    if (this.#running >= maxAtOnce) await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      // The turn is handed over, so that a call that comes now does not overtake.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}
