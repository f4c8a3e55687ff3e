// Bounds how often a client may reset streams (CVE-2023-44487): a reset request costs the gateway more than the client,
// which never waits for a response. A browser that leaves a page resets many streams at once, but not continuously.
import { TokenBucket, type TokenRate } from "../../core/token-bucket.ts";

const rate: TokenRate = { burst: 200, perSecond: 20 };

export class ResetAllowance {
  readonly #nowMs: () => number;
  readonly #bucket: TokenBucket;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#bucket = new TokenBucket(rate, nowMs());
  }

  /** Counts a reset. Returns false if there have been too many. */
  take(): boolean {
    this.#bucket.refill(this.#nowMs());
    this.#bucket.take(1);
    return this.#bucket.left >= 0;
  }
}
