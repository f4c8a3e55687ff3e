// Bounds of messages and of connections of HTTP, whoever reads them: clients with their requests, and ingresses with their
// checks. And the budget for small pieces of a body.
import { TokenBucket, type TokenRate } from "./token-bucket.ts";

/** Of a head: request line and headers together, as Node counts them. The default where a key sets it; that of trailers. */
export const maxHeadBytes = 16 * 1024;

/** Of a request head. Other proxies take about 100. */
export const maxFields = 200;

export interface HeadBounds {
  readonly maxBytes: number;
  readonly maxFields: number;
}

/** How long a connection may be idle, where no key sets it; the default of the key. Google's balancers keep theirs for 600 s. */
export const keepAliveMs = 620_000;

/** How long the other side may take to close its connection when there is no time for more. */
export const closeMs = 2_000;

/** How long a client may be silent that still sends a request which has been answered. */
export const lingerSilenceMs = 5_000;

/** With so many bytes of requests waiting, the socket is not read. One read of the socket may exceed it. */
export const maxUnreadBytes = 64 * 1024;

/**
 * 600 pieces take about 4 ms of CPU; one request may cost 5 ms. A client that writes a thousand rows of 16 bytes stays
 * within it. 100 pieces a second are far more than a log, a terminal or a sensor sends, and take a thousandth of a
 * core.
 */
const rate: TokenRate = { burst: 600, perSecond: 100 };

/**
 * Pieces of this length and longer are free. For each byte they cost about ten times as much as large pieces, which is
 * acceptable. A client that writes each line of JSON as a chunk sends longer pieces. The end of a read cuts a piece in
 * two.
 */
export const freePieceBytes = 24;

/**
 * Returns what a piece counts for the minimum rate of a body. Its first bytes are no progress: they pay for what a piece costs
 * whatever its length.
 */
export function progressOf(bytes: number): number {
  return Math.max(0, bytes - freePieceBytes);
}

/**
 * The budget for small pieces of a body (chunks, DATA frames, reads). Each piece costs the gateway and the upstream
 * several microseconds, whatever its length, so a body of one-byte chunks costs 50 times as much as one of large
 * chunks. The budget is a token bucket: a piece takes one token, each 24 bytes give one back, and so does time.
 */
export class PieceBudget {
  readonly #nowMs: () => number;
  readonly #bucket: TokenBucket;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#bucket = new TokenBucket(rate, nowMs());
  }

  /** Counts a piece. Returns false if there have been too many small ones. */
  take(bytes: number): boolean {
    this.#bucket.take(1 - bytes / freePieceBytes);
    if (bytes < freePieceBytes) this.#bucket.refill(this.#nowMs());
    return this.#bucket.left >= 0;
  }
}
