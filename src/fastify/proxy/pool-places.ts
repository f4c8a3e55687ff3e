// Bounds the requests that are at the upstream at the same time. As many more may wait, each for a limited time. The
// clients share both in the same way as in the gateway.
import { SharedPlaces, type SharedPlacesOptions } from "../../upstream/client-places.ts";
import type { ClientHolding, Reclaimable } from "../../upstream/client-shares.ts";
import type { Waiter } from "../../upstream/fair-queue.ts";

export interface PlaceWaiter extends Waiter, Reclaimable {
  onPlace(place: ClientHolding): void;
  /** Too many wait, or it took too long. */
  onNoPlace(): void;
}

export class PoolPlaces extends SharedPlaces<PlaceWaiter> {
  #active = 0;

  constructor(options: Omit<SharedPlacesOptions<PlaceWaiter>, "onRefused">) {
    super({ ...options, onRefused: (waiter) => waiter.onNoPlace() });
  }

  get active(): number {
    return this.#active;
  }

  /** Calls one of the waiter's methods once, at once or later, unless it leaves. */
  acquire(waiter: PlaceWaiter): void {
    if (this.isFreeFor(waiter.client)) this.#give(waiter);
    else this.wait(waiter);
  }

  /** Gives the place of a request that is over to the next one that waits, if its client has a share left. */
  override release(place: ClientHolding, waiter: PlaceWaiter): void {
    this.#active -= 1;
    super.release(place, waiter);
    const next = this.next();
    if (next !== undefined) this.#give(next);
  }

  #give(waiter: PlaceWaiter): void {
    this.#active += 1;
    waiter.onPlace(this.hold(waiter.client));
  }
}
