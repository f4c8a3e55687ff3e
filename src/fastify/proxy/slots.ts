// Bounds the requests that are at the upstream at the same time, and those that wait for that: as many again, each for a
// limited time.

export interface SlotWaiter {
  onSlot(): void;
  /** Too many wait, or it took too long. */
  onNoSlot(): void;
}

export class Slots {
  readonly #max: number;
  readonly #timeoutMs: number;
  #active = 0;
  /** In the order in which they came. */
  readonly #waiting = new Map<SlotWaiter, NodeJS.Timeout>();

  constructor(max: number, timeoutMs: number) {
    this.#max = max;
    this.#timeoutMs = timeoutMs;
  }

  get active(): number {
    return this.#active;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Calls one of the waiter's methods once, at once or later, unless it leaves. */
  acquire(waiter: SlotWaiter): void {
    if (this.#active < this.#max) {
      this.#active += 1;
      waiter.onSlot();
    } else if (this.#waiting.size < this.#max) {
      const expire = (): void => {
        this.#waiting.delete(waiter);
        waiter.onNoSlot();
      };
      this.#waiting.set(waiter, setTimeout(expire, this.#timeoutMs));
    } else {
      waiter.onNoSlot();
    }
  }

  leave(waiter: SlotWaiter): void {
    clearTimeout(this.#waiting.get(waiter));
    this.#waiting.delete(waiter);
  }

  /** Gives the slot of a request that is over to the next. */
  release(): void {
    const next = this.#waiting.keys().next().value;
    if (next === undefined) {
      this.#active -= 1;
      return;
    }
    this.leave(next);
    next.onSlot();
  }
}
