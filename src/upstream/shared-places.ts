// Places that requests share, such as connections to the upstream: who holds how many, and who waits for one. Whoever owns
// the places says when one is free. While a client under its share waits, and another one is over its share, places of
// that one which are idle are taken back.
import type { OnShareExceeded } from "../core/client-share.ts";
import { type ClientShare, ClientShares, type Reclaimable } from "./client-shares.ts";
import { FairQueue, type Waiter } from "./fair-queue.ts";

export interface SharedPlacesOptions<W> {
  /** The number of places. As many requests may wait. */
  readonly total: number;
  /** What one client may hold while others wait. */
  readonly percent: number;
  /** The longest wait. */
  readonly timeoutMs: number;
  /** No place became free in time, or too many wait. */
  readonly onRefused: (waiter: W) => void;
  readonly onShareExceeded: OnShareExceeded;
}

/**
 * A place is taken back after it has been idle for so long: less than the connect timeout, so that others get
 * it in time, and more than an upload in progress waits between two pieces.
 */
const minIdleMs = 500;
/** While requests wait, how often it is looked whether a place has been idle for long enough by now. */
const reclaimEveryMs = 100;
/** Each takes the time of a local reply. */
const maxReclaimedAtOnce = 16;

export class SharedPlaces<W extends Waiter & Reclaimable> {
  readonly #options: SharedPlacesOptions<W>;
  readonly #shares: ClientShares;
  readonly #queue: FairQueue<W>;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: SharedPlacesOptions<W>) {
    this.#options = options;
    const { total, percent, timeoutMs, onRefused: onTimeout, onShareExceeded: onExceeded } = options;
    this.#shares = new ClientShares({ resource: "connections", total, percent, onExceeded });
    this.#queue = new FairQueue({ maxWaiting: total, timeoutMs, onTimeout }, this.#shares);
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Counts a place of the client. */
  hold(client: string): ClientShare {
    return this.#queue.hold(client);
  }

  /** The place may become idle, and is taken back then if another client needs it. */
  mayReclaim(share: ClientShare, waiter: W): void {
    this.#shares.addReclaimable(share, waiter);
  }

  /** The place is free. The next one that waits is to be taken from the queue. */
  release(share: ClientShare, waiter: W): void {
    share.reclaimable?.delete(waiter);
    this.#queue.release(share);
  }

  /** Waits for a place, for which `next` returns it later, or refuses it. */
  wait(waiter: W): void {
    const { onRefused, onShareExceeded } = this.#options;
    const refused = this.#queue.add(waiter);
    if (refused === waiter && !this.#queue.isAtShare(waiter.client)) {
      onRefused(waiter);
      return;
    }
    if (refused !== null) {
      onShareExceeded("queue", refused.client);
      refused.onShareExceeded("queue");
    }
    if (refused !== waiter) this.#reclaim();
  }

  /** Returns the one that gets the place that is free, which has to be counted by `hold`. */
  next(): W | undefined {
    return this.#queue.take();
  }

  /** Ends the wait. Returns false if it does not wait. */
  leave(waiter: W): boolean {
    return this.#queue.delete(waiter);
  }

  /** Ends all waits, and returns who waited. */
  close(): W[] {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    return this.#queue.deleteAll();
  }

  /** Takes places from clients over their share for those under their share that wait, now and while they wait. */
  #reclaim(): void {
    for (let i = 0; i < maxReclaimedAtOnce && this.#queue.isNextUnderShare; i += 1) {
      const { size } = this.#queue;
      // A place that is given back is given to the next one at once.
      if (!this.#shares.reclaim(minIdleMs) || this.#queue.size >= size) break;
    }
    if (this.#queue.size > 0) this.#timer ??= setTimeout(this.#onTimer, reclaimEveryMs);
  }

  readonly #onTimer = (): void => {
    this.#timer = null;
    this.#reclaim();
  };
}
