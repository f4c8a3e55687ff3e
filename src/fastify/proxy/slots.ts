// Bounds the requests that are at the upstream at the same time. As many more may wait, each for a limited time. The
// clients share both in the same way as in the gateway.
import {
  type ClientShare,
  type Reclaimable,
  SharedPlaces,
  type SharedPlacesOptions,
} from "../../upstream/client-places.ts";

export interface SlotWaiter extends Reclaimable {
  /** The key of the client that is charged. */
  readonly client: string;
  onSlot(slot: ClientShare): void;
  /** Too many wait, or it took too long. */
  onNoSlot(): void;
}

export class Slots {
  readonly #places: SharedPlaces<SlotWaiter>;
  #active = 0;

  constructor(options: Omit<SharedPlacesOptions<SlotWaiter>, "onRefused">) {
    this.#places = new SharedPlaces({ ...options, onRefused: (waiter) => waiter.onNoSlot() });
  }

  get active(): number {
    return this.#active;
  }

  get waiting(): number {
    return this.#places.waiting;
  }

  /** Calls one of the waiter's methods once, at once or later, unless it leaves. */
  acquire(waiter: SlotWaiter): void {
    if (this.#places.isFreeFor(waiter.client)) this.#give(waiter);
    else this.#places.wait(waiter);
  }

  leave(waiter: SlotWaiter): void {
    this.#places.leave(waiter);
  }

  /** From now on, the slot is taken back if its request is idle and another client needs it. */
  mayReclaim(slot: ClientShare, waiter: SlotWaiter): void {
    this.#places.mayReclaim(slot, waiter);
  }

  /** Gives the slot of a request that is over to the next one that waits, if its client has a share left. */
  release(slot: ClientShare, waiter: SlotWaiter): void {
    this.#active -= 1;
    this.#places.release(slot, waiter);
    const next = this.#places.next();
    if (next !== undefined) this.#give(next);
  }

  /** Refuses all that wait. */
  close(): void {
    for (const waiter of this.#places.close()) waiter.onNoSlot();
  }

  #give(waiter: SlotWaiter): void {
    this.#active += 1;
    waiter.onSlot(this.#places.hold(waiter.client));
  }
}
