// What a thread tells the store without a request: what it has admitted while the store was away, the slots that it still
// holds, and the leases that have ended. Few calls are under way at a time, because requests wait for the store behind them.
import { CounterKey } from "../../core/counter-key.ts";
import type { Timers } from "../../core/store-link.ts";
import type { OwnCount } from "../counters.ts";
import type { CounterTable } from "../table/counter-table.ts";
import { recordsOf } from "../table/maintenance.ts";
import { slotLeaseMs } from "./counter-rules.ts";
import type { KeyCredits, Lease, OwnReport, StorePolicy } from "./credits.ts";
import type { CounterItem, LeaseReport } from "./script-call.ts";
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

// What a gateway knows by itself of what it has admitted, and tells a store that does not know it.

/** A key of the table of which something counts. */
export interface OwnKey extends OwnCount {
  readonly policy: StorePolicy;
  readonly key: CounterKey;
}

/** What the store is told of a key. */
export interface Telling {
  readonly credits: KeyCredits;
  readonly item: CounterItem;
  /** Those of the item. */
  readonly reports: readonly OwnReport[];
}

/** Keys that are looked at in one turn of the event loop. */
const keysInTurn = 1_024;

/**
 * Yields the keys with counts of their own, and null where a turn has looked at enough: a shard of the table, of 4 MiB at
 * most, takes a few milliseconds. `policyOf`: by the slot in the table.
 */
export function* ownKeys(
  { maintenance }: CounterTable,
  policyOf: (slot: number) => StorePolicy | undefined,
  nowMs: () => number,
): Generator<OwnKey | null> {
  for (let index = 0; index < maintenance.shardCount; index += 1) {
    const shard = maintenance.copyShard(index);
    let looked = 0;
    // Null: a thread is changing it; its keys are told when they are asked for.
    for (const { slot, kind, key: words, isAddress } of shard === null ? [] : recordsOf(shard)) {
      const policy = kind === "own" ? policyOf(slot) : undefined;
      if (policy === undefined) continue;
      const key = new CounterKey(...words, isAddress);
      const count = policy.source.own(key, key, nowMs());
      if (count !== null) yield { ...count, policy, key };
      looked += 1;
      if (looked % keysInTurn === 0) yield null;
    }
    yield null;
  }
}

// The slots of `concurrency` that requests of this thread hold. They are renewed, or the store would take this gateway for
// dead and give them to others.

/** Slots of one key. */
export interface Renewal {
  readonly credits: KeyCredits;
  readonly reports: readonly LeaseReport[];
}

/** Of one key in one renewal, so that a call with many renewals is short. */
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
    // What has not been renewed by now is the most urgent.
    if (this.#isRenewing) return;
    this.#isRenewing = true;
    // A call has one item of a key: more slots of it are renewed by later calls.
    let byKey = [...Map.groupBy(this.#leases, (lease) => lease.credits)];
    for (let at = 0; byKey.length > 0; at += mostSlots) {
      await this.#renew(this.#renewals(byKey, at));
      byKey = byKey.filter(([, leases]) => leases.length > at + mostSlots);
    }
    this.#isRenewing = false;
  }

  *#renewals(byKey: readonly [KeyCredits, readonly Lease[]][], at: number): Generator<Renewal, undefined> {
    for (const [credits, leases] of byKey) {
      if (this.#isClosed) return;
      // A slot that was given back meanwhile must not be taken again.
      const held = leases.slice(at, at + mostSlots).filter((lease) => this.#leases.has(lease));
      const reports = held.map(({ id, granted }) => ({ id, granted, spent: granted, ageUs: 0 }));
      if (held.length > 0) yield { credits, reports };
    }
  }
}

// Ends leases whose time is over, and has what is left of them reported; and what was admitted without the store told.

/** How often they are looked for. */
const intervalMs = 20;

/** Keys that are looked at in one turn of the event loop. */
const endingsInTurn = 2_048;

export class LeaseEndings {
  readonly #timing: Timing;
  readonly #report: (credits: KeyCredits) => void;
  readonly #credits = new Set<KeyCredits>();
  #timer: { cancel(): void } | null = null;

  /** `report`: the next call reports what has ended, and tells what was admitted. */
  constructor(timing: Timing, report: (credits: KeyCredits) => void) {
    this.#timing = timing;
    this.#report = report;
  }

  /** These have a lease, or something to report or to tell. */
  add(credits: KeyCredits): void {
    this.#credits.add(credits);
    this.#timer ??= this.#timing.timers.after(intervalMs, () => this.#end());
  }

  get openLeases(): number {
    return Array.from(this.#credits).reduce((leases, credits) => leases + credits.openLeases, 0);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #end(): void {
    this.#timer = null;
    const { clock, timers } = this.#timing;
    const nowMs = clock.monotonicMs();
    let left = Math.min(endingsInTurn, this.#credits.size);
    for (const credits of this.#credits) {
      if (left === 0) break;
      left -= 1;
      credits.endLeases(nowMs);
      credits.dropReports(nowMs);
      // The next turn begins with those that were not looked at.
      this.#credits.delete(credits);
      if (credits.owes) this.#report(credits);
      if (credits.owes || credits.openLeases + credits.inFlight > 0) this.#credits.add(credits);
    }
    if (this.#credits.size > 0) this.#timer = timers.after(intervalMs, () => this.#end());
  }
}
