// Reports to the store that no request waits for: slots that are still held, and leases that have ended. Few of these calls are
// under way at a time, because requests wait for the store behind them.
import type { Timers } from "../../core/store-link.ts";
import { slotLeaseMs } from "./counter-rules.ts";
import type { LeaseReport } from "./script-call.ts";
import type { Lease, SharedKey } from "./shared-key.ts";
import type { Timing } from "./store-clock.ts";

/**
 * Sends items in calls of `mostItems` at most, `mostCalls` at a time. A null among the items ends what is looked at in one
 * turn of the event loop. Resolves when every call has ended; stops when `send` resolves with false.
 */
export async function sendAll<T>(
  items: Iterator<T | null, unknown>,
  { mostItems, mostCalls }: { readonly mostItems: number; readonly mostCalls: number },
  send: (items: readonly T[]) => Promise<boolean>,
  endOfTurn: (run: () => void) => void,
): Promise<boolean> {
  let goesOn = true;
  let pause: Promise<void> | null = null;
  const next = async (): Promise<readonly T[]> => {
    const together: T[] = [];
    while (goesOn && together.length < mostItems) {
      if (pause !== null) {
        await pause;
        continue;
      }
      const { value, done } = items.next();
      if (done) break;
      if (value !== null) together.push(value as T);
      else
        pause = new Promise<void>(endOfTurn).then(() => {
          pause = null;
        });
    }
    return together;
  };
  const sendInTurn = async (): Promise<void> => {
    while (goesOn) {
      const together = await next();
      if (!goesOn || together.length === 0) return;
      goesOn = (await send(together)) && goesOn;
    }
  };
  await Promise.all(Array.from({ length: mostCalls }, sendInTurn));
  return goesOn;
}

// The slots of `concurrency` that requests of this thread hold. They are renewed, or the store would take this gateway for
// dead and give them to others.

/** Slots of one key that are renewed by one item. */
export interface Renewal {
  readonly key: SharedKey;
  readonly reports: readonly LeaseReport[];
}

/** How many slots one item renews, so that a call with many renewals is short. */
const mostSlots = 8;

export class HeldSlots {
  readonly #leases = new Set<Lease>();
  readonly #timers: Timers;
  readonly #renew: (renewals: Generator<Renewal, undefined>) => Promise<unknown>;
  #timer: { cancel(): void } | null = null;
  #isRenewing = false;
  #isClosed = false;

  /** `renew`: resolves when the calls with the renewals have ended. */
  constructor(timers: Timers, renew: (renewals: Generator<Renewal, undefined>) => Promise<unknown>) {
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
    this.#isClosed = true;
  }

  async #renewAll(): Promise<void> {
    this.#timer = this.#leases.size === 0 ? null : this.#timers.after(slotLeaseMs / 3, () => this.#renewAll());
    // Slots that the last round has not renewed yet are the most urgent.
    if (this.#isRenewing) return;
    this.#isRenewing = true;
    const byKey = Map.groupBy(this.#leases, ({ key }) => key);
    const most = Math.max(0, ...Array.from(byKey.values(), (leases) => leases.length));
    // A call is about each key once.
    for (let at = 0; at < most; at += mostSlots) await this.#renew(this.#renewals(byKey, at));
    this.#isRenewing = false;
  }

  *#renewals(byKey: ReadonlyMap<SharedKey, readonly Lease[]>, at: number): Generator<Renewal, undefined> {
    for (const [key, leases] of byKey) {
      if (this.#isClosed) return;
      // A slot that was given back meanwhile must not be taken again.
      const held = leases.slice(at, at + mostSlots).filter((lease) => this.#leases.has(lease));
      const reports = held.map(({ id, granted }) => ({ id, granted, spent: granted, ageUs: 0 }));
      if (held.length > 0) yield { key, reports };
    }
  }
}

// Ends leases whose time is over, has the rest of them reported, and has the store told what was admitted without it.

/** How often keys are looked at. */
const intervalMs = 20;

/** How many keys are looked at in one turn of the event loop. */
const endingsInTurn = 2_048;

export class LeaseEndings {
  readonly #timing: Timing;
  readonly #report: (key: SharedKey) => void;
  readonly #keys = new Set<SharedKey>();
  #timer: { cancel(): void } | null = null;

  /** `report`: the next call reports what has ended, and tells what was admitted. */
  constructor(timing: Timing, report: (key: SharedKey) => void) {
    this.#timing = timing;
    this.#report = report;
  }

  /** Adds a key that has a lease, or something to report or to tell. */
  add(key: SharedKey): void {
    this.#keys.add(key);
    this.#timer ??= this.#timing.timers.after(intervalMs, () => this.#end());
  }

  get openLeases(): number {
    return Array.from(this.#keys).reduce((leases, { held }) => leases + held.open, 0);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #end(): void {
    this.#timer = null;
    const { clock, timers } = this.#timing;
    const nowMs = clock.monotonicMs();
    let left = Math.min(endingsInTurn, this.#keys.size);
    for (const key of this.#keys) {
      if (left === 0) break;
      left -= 1;
      key.endLeases(nowMs);
      key.dropReports(nowMs);
      // The next turn begins with those that were not looked at.
      this.#keys.delete(key);
      if (key.owes) this.#report(key);
      if (key.owes || key.held.open + key.calls > 0) this.#keys.add(key);
    }
    if (this.#keys.size > 0) this.#timer = timers.after(intervalMs, () => this.#end());
  }
}
