// The slots of `concurrency` that requests of this thread hold. They are renewed, or the store would take this gateway
// for dead and give them to others. Few calls are under way at a time, because requests wait for the store behind them.
import type { Timers } from "../../core/shared-store.ts";
import type { KeyCredits, Lease } from "./key-credits.ts";
import { slotLeaseMs } from "./policy-rules.ts";
import { type LeaseReport, mostItems } from "./script-call.ts";

/** Slots of one key. */
export interface Renewal {
  readonly credits: KeyCredits;
  readonly reports: readonly LeaseReport[];
}

export interface HeldSlotsParts {
  readonly timers: Timers;
  /** Whether a call may have one renewal only. */
  readonly isClustered: boolean;
  /** Sends a call. Returns false if there is nobody to ask; else `done` is called later. */
  renew(renewals: readonly Renewal[], done: () => void): boolean;
}

/** Of one key in one renewal, so that a call with many renewals is short. */
const mostSlots = 8;
/** Calls that are under way together in a cluster, where each is short. */
const clusterCalls = 16;

export class HeldSlots {
  readonly #leases = new Set<Lease>();
  readonly #parts: HeldSlotsParts;
  #timer: { cancel(): void } | null = null;
  /** Calls that are under way. */
  #open = 0;
  #isClosed = false;

  constructor(parts: HeldSlotsParts) {
    this.#parts = parts;
  }

  add(lease: Lease): void {
    this.#leases.add(lease);
    this.#timer ??= this.#parts.timers.after(slotLeaseMs / 3, () => this.#renewAll());
  }

  delete(lease: Lease): void {
    this.#leases.delete(lease);
  }

  close(): void {
    this.#timer?.cancel();
    this.#isClosed = true;
  }

  #renewAll(): void {
    const { timers, isClustered } = this.#parts;
    this.#timer = this.#leases.size === 0 ? null : timers.after(slotLeaseMs / 3, () => this.#renewAll());
    // What has not been renewed by now is the most urgent.
    if (this.#open > 0) return;
    const renewals = this.#renewals();
    for (let i = 0; i < (isClustered ? clusterCalls : 1); i += 1) this.#sendNext(renewals);
  }

  #sendNext(renewals: Iterator<Renewal>): void {
    const { isClustered, renew } = this.#parts;
    const done = (): void => {
      this.#open -= 1;
      this.#sendNext(renewals);
    };
    for (;;) {
      const together: Renewal[] = [];
      while (together.length < (isClustered ? 1 : mostItems)) {
        const { value } = renewals.next();
        if (value === undefined) break;
        together.push(value);
      }
      if (together.length === 0) return;
      if (!renew(together, done)) continue;
      this.#open += 1;
      return;
    }
  }

  *#renewals(): Generator<Renewal, undefined> {
    for (const [credits, leases] of Map.groupBy(this.#leases, (lease) => lease.credits)) {
      for (let at = 0; at < leases.length; at += mostSlots) {
        if (this.#isClosed) return;
        // A slot that was given back meanwhile must not be taken again.
        const held = leases.slice(at, at + mostSlots).filter((lease) => this.#leases.has(lease));
        const reports = held.map(({ id, granted }) => ({ id, granted, spent: granted, ageUs: 0 }));
        if (held.length > 0) yield { credits, reports };
      }
    }
  }
}
