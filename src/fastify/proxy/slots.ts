// Bounds the requests that are at the upstream at the same time. As many more may wait, each for a limited time. The
// clients share both in the same way as in the gateway.
import {
  type ClientHolding,
  type Reclaimable,
  SharedPlaces,
  type SharedPlacesOptions,
  type Waiter,
} from "../../upstream/client-places.ts";

export interface SlotWaiter extends Waiter, Reclaimable {
  onSlot(slot: ClientHolding): void;
  /** Too many wait, or it took too long. */
  onNoSlot(): void;
}

export class Slots extends SharedPlaces<SlotWaiter> {
  #active = 0;

  constructor(options: Omit<SharedPlacesOptions<SlotWaiter>, "onRefused">) {
    super({ ...options, onRefused: (waiter) => waiter.onNoSlot() });
  }

  get active(): number {
    return this.#active;
  }

  /** Calls one of the waiter's methods once, at once or later, unless it leaves. */
  acquire(waiter: SlotWaiter): void {
    if (this.isFreeFor(waiter.client)) this.#give(waiter);
    else this.wait(waiter);
  }

  /** Gives the slot of a request that is over to the next one that waits, if its client has a share left. */
  override release(slot: ClientHolding, waiter: SlotWaiter): void {
    this.#active -= 1;
    super.release(slot, waiter);
    const next = this.next();
    if (next !== undefined) this.#give(next);
  }

  #give(waiter: SlotWaiter): void {
    this.#active += 1;
    waiter.onSlot(this.hold(waiter.client));
  }
}
