// Spreads the TLS handshakes that one peer begins over the iterations of the event loop. The first flight of a handshake
// takes most of a millisecond, so a thousand of them at once would delay all other clients by a second.

/** In one iteration of the event loop, for each peer. Many clients behind one address notice a few milliseconds. */
const startsInIteration = 4;

export class HandshakeTurns {
  readonly #starts = new Map<string, number>();
  /** By peer: what is left for later iterations, in the order of arrival. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isScheduled = false;

  /** Calls `start` now, or in a later iteration if the peer has begun enough of them in this one. */
  begin(peer: string, start: () => void): void {
    this.#schedule();
    const starts = this.#starts.get(peer) ?? 0;
    if (starts < startsInIteration) {
      this.#starts.set(peer, starts + 1);
      start();
      return;
    }
    const queue = this.#waiting.get(peer);
    if (queue === undefined) this.#waiting.set(peer, [start]);
    else queue.push(start);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#onIterationEnd);
  }

  readonly #onIterationEnd = (): void => {
    this.#isScheduled = false;
    this.#starts.clear();
    for (const [peer, queue] of this.#waiting) {
      const next = queue.splice(0, startsInIteration);
      if (queue.length === 0) this.#waiting.delete(peer);
      this.#starts.set(peer, next.length);
      for (const start of next) start();
    }
    if (this.#starts.size > 0) this.#schedule();
  };
}
