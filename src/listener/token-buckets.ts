// A token bucket for each key: `burst` at once, and `perSecond` after that. Takes constant time. A bucket that is full
// again is forgotten, so memory holds only the keys of the last few seconds.
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";

/** Bounds the memory. With more keys, those whose last use is longest ago are forgotten before they are full. */
const maxKeysPerGeneration = 50_000;

export class TokenBuckets {
  readonly #rate: TokenRate;
  /** After this time without a use, a bucket is full. */
  readonly #fillMs: number;
  /** The buckets used since `#beganMs`, and those used only in the generation before. */
  #current = new Map<string, TokenBucket>();
  #previous = new Map<string, TokenBucket>();
  #beganMs = Number.NEGATIVE_INFINITY;

  constructor(rate: TokenRate) {
    this.#rate = rate;
    this.#fillMs = (rate.burst / rate.perSecond) * 1000;
  }

  get size(): number {
    return this.#current.size + this.#previous.size;
  }

  /** Takes a token; false if there is none. `nowMs` never goes back. */
  take(key: string, nowMs: number): boolean {
    this.#forgetFull(nowMs);
    const bucket = this.#bucketOf(key, nowMs);
    bucket.refill(nowMs);
    if (bucket.left < 1) return false;
    bucket.take(1);
    return true;
  }

  #bucketOf(key: string, nowMs: number): TokenBucket {
    const current = this.#current.get(key);
    if (current !== undefined) return current;
    const previous = this.#previous.get(key);
    this.#previous.delete(key);
    const bucket = previous ?? new TokenBucket(this.#rate, nowMs);
    this.#current.set(key, bucket);
    return bucket;
  }

  /** A bucket that was not used in the current generation, which has lasted for `#fillMs`, is full. */
  #forgetFull(nowMs: number): void {
    if (nowMs - this.#beganMs < this.#fillMs && this.#current.size < maxKeysPerGeneration) return;
    this.#previous = this.#current;
    this.#current = new Map();
    this.#beganMs = nowMs;
  }
}
