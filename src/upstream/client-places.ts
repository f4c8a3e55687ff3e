// Places that requests share, such as connections to the upstream: who holds how many, and who waits for one.
import type { OnShareExceeded, SharedResource } from "../core/client-share.ts";
import { type ClientHolding, ClientShares, type Reclaimable } from "./client-shares.ts";
import { FairQueue, type Waiter } from "./fair-queue.ts";

export interface SharedPlacesOptions<W> {
  /** The number of places. As many requests may wait, but at least `minWaiting`. */
  readonly total: number;
  /** The longest wait. */
  readonly timeoutMs: number;
  /**
   * Called when no place became free in time, or too many wait. If the reason is the client's share, `onShareExceeded` is
   * called instead, here and on the waiter.
   */
  readonly onRefused: (waiter: W) => void;
  readonly onShareExceeded: OnShareExceeded;
}

/** A browser sends the requests of a page on one HTTP/2 connection at once: 100, as many as the gateway allows it. */
const minWaiting = 100;

/** How often slow transfers are looked for while requests wait. */
const reclaimEveryMs = 100;

export class SharedPlaces<W extends Waiter & Reclaimable> {
  readonly #options: SharedPlacesOptions<W>;
  readonly #shares: ClientShares;
  readonly #queue: FairQueue<W>;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: SharedPlacesOptions<W>) {
    this.#options = options;
    const { total, timeoutMs, onShareExceeded: onExceeded } = options;
    this.#shares = new ClientShares({ resource: "connections", total, onExceeded });
    this.#queue = new FairQueue(
      { maxWaiting: Math.max(total, minWaiting), timeoutMs, onTimeout: (waiter) => this.#refuse(waiter) },
      this.#shares,
    );
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Returns whether a place is free for the client. If not, `wait`. */
  isFreeFor(client: string): boolean {
    return this.#shares.hasShareLeft(this.#shares.find(client)?.held ?? 0);
  }

  /** Counts a place that the client now holds. */
  hold(client: string): ClientHolding {
    return this.#queue.hold(client);
  }

  /** From now on, the place is taken back if its transfer is slow and another client needs it. */
  mayReclaim(holding: ClientHolding, waiter: W): void {
    this.#shares.addReclaimable(holding, waiter);
  }

  /** Counts the place as free. The owner then calls `next`. */
  release(holding: ClientHolding, waiter: W): void {
    holding.reclaimable?.delete(waiter);
    this.#queue.release(holding);
  }

  /** Adds the waiter to the queue, from which `next` returns it later, or refuses it. */
  wait(waiter: W): void {
    const refused = this.#queue.add(waiter);
    if (refused === waiter && !this.#queue.isAtShare(waiter.client)) this.#refuse(waiter);
    else if (refused !== null) this.#refuseForShare(refused, "queue");
    // While the timer is set, the last search was less than `reclaimEveryMs` ago.
    if (refused !== waiter && this.#timer === null) this.#reclaim();
  }

  /** Returns the waiter that gets a free place, if one is free for it. The owner counts the place with `hold`. */
  next(): W | undefined {
    return this.#queue.take();
  }

  /** Removes the waiter from the queue. Returns false if it does not wait. */
  leave(waiter: W): boolean {
    return this.#queue.delete(waiter);
  }

  /** Empties the queue, and returns those that waited. */
  close(): W[] {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    return this.#queue.deleteAll();
  }

  /** If places are free, only the client's share can be the reason. */
  #refuse(waiter: W): void {
    if (this.#shares.hasFree) this.#refuseForShare(waiter, "connections");
    else this.#options.onRefused(waiter);
  }

  #refuseForShare(waiter: W, resource: SharedResource): void {
    this.#options.onShareExceeded(resource, waiter.client);
    waiter.onShareExceeded(resource);
  }

  /**
   * If the next client that waits holds no place, takes back that of a slow transfer for it. Takes back one place only,
   * because the search takes a millisecond with thousands of clients: the next search is in another turn of the event loop.
   */
  #reclaim(): void {
    const { size, first } = this.#queue;
    const isTaken = first?.line.holding.held === 0 && this.#shares.reclaim(first.isUrgent);
    // A place that is taken back goes to the next waiter before `reclaim` returns.
    const isGiven = isTaken && this.#queue.size < size;
    if (isGiven || this.#queue.size > 0) this.#timer ??= setTimeout(this.#onTimer, isGiven ? 0 : reclaimEveryMs);
  }

  readonly #onTimer = (): void => {
    this.#timer = null;
    this.#reclaim();
  };
}
