// The slots of `concurrency` that requests of this thread hold. They are renewed, or the store would take this gateway
// for dead and give them to others.
import type { Timers } from "../../core/shared-store.ts";
import type { KeyCredits, Lease } from "./key-credits.ts";
import { slotLeaseMs } from "./policy-rules.ts";
import { type LeaseReport, mostReports } from "./script-call.ts";

export class HeldSlots {
  readonly #leases = new Set<Lease>();
  readonly #timers: Timers;
  readonly #renew: (credits: KeyCredits, reports: readonly LeaseReport[]) => void;
  #timer: { cancel(): void } | null = null;

  /** `renew`: tells the store about the slots of one key. */
  constructor(timers: Timers, renew: (credits: KeyCredits, reports: readonly LeaseReport[]) => void) {
    this.#timers = timers;
    this.#renew = renew;
  }

  add(lease: Lease): void {
    this.#leases.add(lease);
    this.#timer ??= this.#timers.after(slotLeaseMs / 3, () => this.#renewAll());
  }

  delete(lease: Lease): void {
    this.#leases.delete(lease);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #renewAll(): void {
    this.#timer = null;
    for (const [credits, leases] of Map.groupBy(this.#leases, (lease) => lease.credits)) {
      for (let at = 0; at < leases.length; at += mostReports) {
        const renewed = leases.slice(at, at + mostReports);
        this.#renew(
          credits,
          renewed.map(({ id, granted }) => ({ id, granted, spent: granted, ageUs: 0 })),
        );
      }
    }
    if (this.#leases.size > 0) this.#timer = this.#timers.after(slotLeaseMs / 3, () => this.#renewAll());
  }
}
