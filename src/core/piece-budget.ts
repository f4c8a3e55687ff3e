// The bound on small pieces of a body (chunks, DATA frames, reads): each costs the gateway and the upstream several
// microseconds whatever its length, so a body of one-byte chunks costs 50 times as much as one of large chunks.
// A token bucket: a piece takes one token, each 24 bytes give one back, and so does time.

/** About 4 ms of CPU, which is what one request may cost. A client that writes a thousand rows of 16 bytes passes. */
const burst = 600;

/**
 * Pieces of this length and longer are free: they cost some ten times as much for each byte as large ones, and a client
 * that writes each line of JSON as a chunk sends longer ones. Where a read ends, a piece is cut in two.
 */
export const freePieceBytes = 24;

/** Far more lines than a log, a terminal or a sensor sends. A thousandth of a core. */
const perSecond = 100;

export class PieceBudget {
  readonly #nowMs: () => number;
  #left = burst;
  #sinceMs: number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#sinceMs = nowMs();
  }

  /** Counts a piece; false if there have been too many small ones. */
  take(bytes: number): boolean {
    this.#left += bytes / freePieceBytes - 1;
    if (bytes < freePieceBytes) this.#earnByTime();
    if (this.#left > burst) this.#left = burst;
    return this.#left >= 0;
  }

  #earnByTime(): void {
    const nowMs = this.#nowMs();
    this.#left += ((nowMs - this.#sinceMs) / 1000) * perSecond;
    this.#sinceMs = nowMs;
  }
}
