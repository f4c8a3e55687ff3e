// Counters as tests ask them, one question after the other: an ask that is used again, whose answer is read from here. What
// continues others comes into force with its first question, as by a reload just before it.
import type { Clock } from "../../src/core/clock.ts";
import type { CounterKey } from "../../src/core/counter-key.ts";
import { CalendarCounters } from "../../src/limits/calendar-counters.ts";
import { Ask, type LocalCounters, SlidingCounters } from "../../src/limits/counters.ts";
import { ChargedCounters, ConcurrencyCounters } from "../../src/limits/slot-counters.ts";
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import type { SlotRules } from "../../src/limits/table/key-log.ts";

export class Asking<Asked extends LocalCounters = LocalCounters> {
  readonly asked = new Ask();
  readonly counters: Asked;
  readonly #continues: boolean;
  #isInForce = false;

  constructor(counters: Asked, continues: boolean) {
    this.counters = counters;
    this.#continues = continues;
    if (!continues) this.#comeIntoForce(0);
  }

  get remaining(): number {
    return this.asked.remaining;
  }

  get resetMs(): number {
    return this.asked.resetMs;
  }

  get mayEndSoon(): boolean {
    return this.asked.mayEndSoon;
  }

  select(key: CounterKey, client: CounterKey): void {
    Object.assign(this.asked, { key, client });
    this.counters.select(this.asked);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    this.#comeIntoForce(nowMs);
    return this.counters.ask(Object.assign(this.asked, { limit, units }), nowMs);
  }

  charge(): number {
    return this.counters.charge(this.asked);
  }

  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number, units = 1): void {
    this.#comeIntoForce(nowMs);
    this.counters.peek(Object.assign(this.asked, { key, client, limit, units }), nowMs);
  }

  giveBack(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    this.counters.giveBack({ key, client, limit, units, charged, marks: this.asked.marks });
  }

  keep(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    this.counters.keep({ key, client, limit, units, charged, marks: this.asked.marks });
  }

  unspentResetMs(nowMs: number): number {
    return this.counters.readingAt(nowMs).resetMs;
  }

  #comeIntoForce(nowMs: number): void {
    if (!this.#isInForce) this.counters.comeIntoForce(nowMs, this.#continues);
    this.#isInForce = true;
  }
}

/** `previous`: those that it continues. */
export function askSliding(
  table: CounterTable,
  slot: number,
  rules: SlotRules,
  previous: Asking | null = null,
): Asking<SlidingCounters> {
  return new Asking(new SlidingCounters(table, slot, rules), previous !== null);
}

export function askCalendar(
  table: CounterTable,
  slot: number,
  rules: SlotRules,
  calendar: ConstructorParameters<typeof CalendarCounters>[3],
  clock: Clock,
  previous: Asking | null = null,
): Asking<CalendarCounters> {
  return new Asking(new CalendarCounters(table, slot, rules, calendar, clock), previous !== null);
}

export function askConcurrency(table: CounterTable, slot: number, rules: SlotRules): Asking<ConcurrencyCounters> {
  return new Asking(new ConcurrencyCounters(table, slot, rules), false);
}

/** `continues`: others that charge by status too. */
export function askCharged(
  all: SlidingCounters | CalendarCounters,
  table: CounterTable,
  slot: number,
  continues: boolean,
): Asking<ChargedCounters> {
  return new Asking(new ChargedCounters(all, table, slot), continues);
}
