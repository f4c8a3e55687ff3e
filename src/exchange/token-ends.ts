// Ends what lasts longer than its token. Knows no exchange: it is given an instant and a callback.
import type { WallClock } from "../core/clock.ts";

/** The wall clock may be set, so it is read again at least so often. */
const longestWaitMs = 1000;

/**
 * Calls back when the tokens of open exchanges and tunnels end, so that an open connection does not outlive its token.
 * One timer for all of them; requests whose tokens have no end never come here.
 */
export class TokenEnds {
  readonly #clock: WallClock;
  /** By the instant of the end, in Unix milliseconds. */
  readonly #waiting = new Map<number, Set<() => void>>();
  #timer: NodeJS.Timeout | null = null;

  constructor(clock: WallClock) {
    this.#clock = clock;
  }

  /** Returns what cancels it. */
  watch(endsMs: number, then: () => void): () => void {
    const waiting = this.#waiting.get(endsMs) ?? new Set();
    this.#waiting.set(endsMs, waiting.add(then));
    if (this.#timer === null) this.#wait();
    return () => {
      waiting.delete(then);
      if (waiting.size === 0 && this.#waiting.get(endsMs) === waiting) this.#waiting.delete(endsMs);
    };
  }

  #wait(): void {
    this.#timer = null;
    if (this.#waiting.size === 0) return;
    const leftMs = Math.min(...this.#waiting.keys()) - this.#clock.wallMs();
    this.#timer = setTimeout(() => this.#end(), Math.max(0, Math.min(leftMs, longestWaitMs)));
    this.#timer.unref();
  }

  #end(): void {
    const nowMs = this.#clock.wallMs();
    for (const [endsMs, waiting] of [...this.#waiting]) {
      if (endsMs > nowMs) continue;
      this.#waiting.delete(endsMs);
      for (const then of waiting) then();
    }
    this.#wait();
  }
}
