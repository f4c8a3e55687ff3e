// Bounds the work of the admin API: a few calls run at a time, some wait for their turn, and others are refused. Without
// workers, traffic shares the event loop with these calls. Peers take turns, so that one with many calls delays the others by
// no more than the calls that run. An answer that costs much is made once for all who ask (`SharedAnswers`).
import { clientShare } from "../core/client-share.ts";
import type { MonotonicClock } from "../core/clock.ts";

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

/** Making one is followed by a pause of so many times its own length: at most 5 % of the time is spent. */
const pauseFactor = 20;

/** Prometheus waits 10 s for a scrape by default. */
const defaultMaxPauseMs = 500;

/**
 * Makes an answer that costs much, such as the metrics, for all who ask at the same time. However many come, it takes a
 * small part of the time, so that they cannot slow the traffic down. Everybody gets what was read after they came;
 * those that come meanwhile share one answer.
 */
export class SharedAnswers<Rendered> {
  readonly #render: () => Promise<Rendered>;
  readonly #clock: MonotonicClock;
  readonly #maxPauseMs: number;
  /** Shared by those who came since the last rendering began. */
  #next: Promise<Rendered> | null = null;
  #paused: Promise<void> = Promise.resolve();

  constructor(render: () => Promise<Rendered>, clock: MonotonicClock, maxPauseMs = defaultMaxPauseMs) {
    this.#render = render;
    this.#clock = clock;
    this.#maxPauseMs = maxPauseMs;
  }

  rendered(): Promise<Rendered> {
    this.#next ??= this.#paused.then(() => this.#renderOnce());
    return this.#next;
  }

  async #renderOnce(): Promise<Rendered> {
    this.#next = null;
    const beganMs = this.#clock.monotonicMs();
    const ended = Promise.withResolvers<void>();
    this.#paused = ended.promise;
    try {
      return await this.#render();
    } finally {
      const pauseMs = Math.min(this.#maxPauseMs, pauseFactor * (this.#clock.monotonicMs() - beganMs));
      if (pauseMs > 0) setTimeout(ended.resolve, pauseMs).unref();
      else ended.resolve();
    }
  }
}
