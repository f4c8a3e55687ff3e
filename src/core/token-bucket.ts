// A token bucket: holds at most `burst` tokens, and gets `perSecond` of them back with time. It is refilled only on demand,
// so that a clock is not read for each token.

export interface TokenRate {
  /** Tokens at once, after a pause. */
  readonly burst: number;
  readonly perSecond: number;
}

export class TokenBucket {
  readonly #rate: TokenRate;
  #left: number;
  #refilledMs: number;

  /** The bucket is full. */
  constructor(rate: TokenRate, nowMs: number) {
    this.#rate = rate;
    this.#left = rate.burst;
    this.#refilledMs = nowMs;
  }

  /** The tokens at the last refill, less those taken since; negative if too many were taken. */
  get left(): number {
    return this.#left;
  }

  get spent(): number {
    return this.#rate.burst - this.#left;
  }

  /** Takes tokens, or gives them back if negative. */
  take(tokens: number): void {
    this.#left = Math.min(this.#rate.burst, this.#left - tokens);
  }

  /** Adds the tokens of the time since the last refill. `nowMs` never goes back. */
  refill(nowMs: number): void {
    this.take(((this.#refilledMs - nowMs) / 1000) * this.#rate.perSecond);
    this.#refilledMs = nowMs;
  }
}
