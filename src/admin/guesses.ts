// Bounds how many wrong tokens a peer may try on the admin API. The memory is bounded: peers beyond the bound share one
// budget, so that many addresses do not get more guesses by making the gateway forget others.
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";

/** A program with an old token tries again each second or so; a person a few times. */
export const guessRate: TokenRate = { burst: 20, perSecond: 0.2 };

/** A bucket takes about 100 bytes. */
export const maxGuessers = 1_000;

export class Guesses {
  readonly #nowMs: () => number;
  readonly #peers = new Map<string, TokenBucket>();
  readonly #others: TokenBucket;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#others = new TokenBucket(guessRate, nowMs());
  }

  /** Returns 0, or after how many seconds the peer may try again. */
  waitSeconds(peerKey: string): number {
    const bucket = this.#peers.get(peerKey) ?? (this.#isFull() ? this.#others : null);
    if (bucket === null) return 0;
    bucket.refill(this.#nowMs());
    return bucket.left >= 1 ? 0 : Math.max(1, Math.ceil((1 - bucket.left) / guessRate.perSecond));
  }

  /** Counts a wrong token. */
  failed(peerKey: string): void {
    const nowMs = this.#nowMs();
    let bucket = this.#peers.get(peerKey);
    if (bucket === undefined && !this.#isFull()) {
      bucket = new TokenBucket(guessRate, nowMs);
      this.#peers.set(peerKey, bucket);
    }
    const charged = bucket ?? this.#others;
    charged.refill(nowMs);
    charged.take(Math.min(1, Math.max(0, charged.left)));
  }

  /** Forgets those whose buckets are full again, if there are too many. */
  #isFull(): boolean {
    if (this.#peers.size < maxGuessers) return false;
    const nowMs = this.#nowMs();
    for (const [peer, bucket] of this.#peers) {
      bucket.refill(nowMs);
      if (bucket.spent <= 0) this.#peers.delete(peer);
    }
    return this.#peers.size >= maxGuessers;
  }
}
