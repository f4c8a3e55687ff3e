// Counts what a policy with `charge` admits: units are held until the status of the response is known. Those that are held
// are counted a second time, by thread, under a slot of their own, so that every thread can tell whether a refusal lasts.
import type { CounterKey } from "../core/counter-key.ts";
import type { CalendarCounters } from "./calendar-counters.ts";
import { ConcurrencyCounters } from "./concurrency-counters.ts";
import type { Counters, LocalCounters, OwnCount } from "./counters.ts";
import type { SlidingCounters } from "./sliding-counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { heldSlotOf } from "./table/layout.ts";
import { heldRules } from "./table/slot-rules.ts";

export class ChargedCounters implements LocalCounters {
  remaining = 0;
  resetMs = 0;
  mayEndSoon = false;
  /** All units that count, kept and held. */
  readonly all: SlidingCounters | CalendarCounters;
  readonly #held: ConcurrencyCounters;

  constructor(all: SlidingCounters | CalendarCounters, table: CounterTable, slot: number) {
    this.all = all;
    this.#held = new ConcurrencyCounters(table, heldSlotOf(slot), heldRules);
  }

  select(key: CounterKey, client: CounterKey): void {
    this.all.select(key, client);
    this.#held.select(key, client);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    this.#held.ask(Number.POSITIVE_INFINITY, units, nowMs);
    const fits = this.all.ask(limit, units, nowMs);
    this.remaining = this.all.remaining;
    this.resetMs = this.all.resetMs;
    const { counted } = this.all;
    const fitsWithoutHeld = counted >= 0 && counted - this.#held.taken + units <= limit;
    this.mayEndSoon = !fits && fitsWithoutHeld && this.#held.resetMs < this.resetMs;
    if (this.mayEndSoon) this.resetMs = this.#held.resetMs;
    return fits;
  }

  charge(): number {
    this.#held.charge();
    return this.all.charge();
  }

  keep(key: CounterKey, client: CounterKey, units: number): void {
    this.#held.giveBack(key, client, 0, units, 0);
  }

  giveBack(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    this.#held.giveBack(key, client, 0, units, 0);
    this.all.giveBack(key, client, limit, units, charged);
  }

  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number, units = 1): void {
    this.all.peek(key, client, limit, nowMs, units);
    this.remaining = this.all.remaining;
    this.resetMs = this.all.resetMs;
  }

  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    return this.all.own(key, client, nowMs);
  }

  unspentResetMs(nowMs: number): number {
    return this.all.unspentResetMs(nowMs);
  }
}

/** The counters that a policy of the same name, kind and key counts all units with, whether it charges by status or not. */
export function allUnits(counters: Counters | null): Counters | null {
  return counters instanceof ChargedCounters ? counters.all : counters;
}
