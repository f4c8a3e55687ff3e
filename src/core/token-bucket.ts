// A token bucket: holds at most `burst` tokens, and gets `perSecond` tokens back each second. It is refilled only on
// demand, so that the clock is not read for each token.

export interface TokenRate {
  /** Tokens in a full bucket. */
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

  /** The tokens at the last refill minus those taken since then; negative if too many were taken. */
  get left(): number {
    return this.#left;
  }

  get spent(): number {
    return this.#rate.burst - this.#left;
  }

  /** Takes tokens; a negative number gives them back. */
  take(tokens: number): void {
    this.#left = Math.min(this.#rate.burst, this.#left - tokens);
  }

  /** Adds the tokens of the time since the last refill. `nowMs` never goes back. */
  refill(nowMs: number): void {
    this.take(((this.#refilledMs - nowMs) / 1000) * this.#rate.perSecond);
    this.#refilledMs = nowMs;
  }
}
