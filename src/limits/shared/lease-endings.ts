// Ends leases whose time is over, and has what is left of them reported; and what was admitted without the store told.
import type { Clock } from "../../core/clock.ts";
import type { Timers } from "../../core/shared-store.ts";
import type { KeyCredits } from "./key-credits.ts";

export interface LeaseEndingsParts {
  readonly clock: Clock;
  readonly timers: Timers;
  /** The next call reports what has ended, and tells what was admitted. */
  report(credits: KeyCredits): void;
  returned(units: number): void;
}

/** How often they are looked for. */
const intervalMs = 20;

/** Keys that are looked at in one turn of the event loop. */
const keysInTurn = 2_048;

export class LeaseEndings {
  readonly #parts: LeaseEndingsParts;
  readonly #credits = new Set<KeyCredits>();
  #timer: { cancel(): void } | null = null;

  constructor(parts: LeaseEndingsParts) {
    this.#parts = parts;
  }

  /** These have a lease, or something to report or to tell. */
  add(credits: KeyCredits): void {
    this.#credits.add(credits);
    this.#timer ??= this.#parts.timers.after(intervalMs, () => this.#end());
  }

  held(): { readonly units: number; readonly leases: number } {
    const nowMs = this.#parts.clock.monotonicMs();
    const held = { units: 0, leases: 0 };
    for (const credits of this.#credits) {
      held.units += credits.held(nowMs);
      held.leases += credits.openLeases;
    }
    return held;
  }

  close(): void {
    this.#timer?.cancel();
  }

  #end(): void {
    this.#timer = null;
    const { clock, timers, report, returned } = this.#parts;
    const nowMs = clock.monotonicMs();
    let left = Math.min(keysInTurn, this.#credits.size);
    for (const credits of this.#credits) {
      if (left === 0) break;
      left -= 1;
      returned(credits.endLeases(nowMs));
      // The next turn begins with those that were not looked at.
      this.#credits.delete(credits);
      if (credits.owes) report(credits);
      if (credits.owes || credits.openLeases + credits.inFlight > 0) this.#credits.add(credits);
    }
    if (this.#credits.size > 0) this.#timer = timers.after(intervalMs, () => this.#end());
  }
}
