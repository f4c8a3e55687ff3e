// Bounds the work of the admin API: a few calls run at a time, some wait for their turn, and others are refused. Without
// workers, traffic shares the event loop with these calls. Peers take turns, so that one with many calls delays the others by
// no more than the calls that run.
import { clientShare } from "../core/client-share.ts";

export const maxAtOnce = 4;
export const maxWaiting = 64;

export class Turns {
  #running = 0;
  #count = 0;
  /** By peer: the one that is next is the first. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Whether one more call of the peer may wait: of the places, one peer gets no more than are free. */
  hasRoom(peer: string): boolean {
    if (this.#running < maxAtOnce) return true;
    return (this.#waiting.get(peer)?.length ?? 0) < clientShare(maxWaiting - this.#count, maxWaiting);
  }

  async take<T>(peer: string, work: () => Promise<T> | T): Promise<T> {
    if (this.#running >= maxAtOnce) await new Promise<void>((resolve) => this.#wait(peer, resolve));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      // The turn is handed over, so that a call that comes now does not overtake.
      const next = this.#next();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  #wait(peer: string, begin: () => void): void {
    const calls = this.#waiting.get(peer);
    if (calls === undefined) this.#waiting.set(peer, [begin]);
    else calls.push(begin);
    this.#count += 1;
  }

  #next(): (() => void) | undefined {
    const [first] = this.#waiting;
    if (first === undefined) return undefined;
    const [peer, calls] = first;
    const begin = calls.shift();
    this.#count -= 1;
    // Behind the other peers.
    this.#waiting.delete(peer);
    if (calls.length > 0) this.#waiting.set(peer, calls);
    return begin;
  }
}
