// What a policy has taken for one exchange: a slot, which is always given back, or units that its status decides about.
import type { CounterKey } from "../core/counter-key.ts";
import type { Held } from "../core/policy.ts";
import type { Counters } from "./counters.ts";

interface HeldUnits {
  /** Those that were charged, which other policies continue after a reload. */
  readonly counters: Counters;
  readonly key: CounterKey;
  readonly client: CounterKey;
  readonly limit: number;
  readonly units: number;
  /** What `charge` has returned. */
  readonly charged: number;
  /** The units are kept if the response has one of these statuses; null: they are always given back. */
  readonly keptStatuses: readonly number[] | null;
}

export class Hold implements Held {
  readonly #held: HeldUnits;
  /** What other policies hold for the same exchange. */
  readonly #next: Held | null;
  #hasEnded = false;

  constructor(held: HeldUnits, next: Held | null) {
    this.#held = held;
    this.#next = next;
  }

  end(status: number): void {
    this.#release(status);
    this.#next?.end(status);
  }

  switched(status: number): Held | null {
    const next = this.#next === null ? null : this.#next.switched(status);
    if (this.#held.keptStatuses === null) return new Hold(this.#held, next);
    this.#release(status);
    return next;
  }

  #release(status: number): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { counters, key, client, limit, units, charged, keptStatuses } = this.#held;
    // Without a response nobody knows what it would have been, so a client gains nothing by leaving early.
    const isKept = keptStatuses !== null && (status === 0 || keptStatuses.includes(status));
    if (isKept) counters.keep(key, client, limit, units, charged);
    else counters.giveBack(key, client, limit, units, charged);
  }
}
