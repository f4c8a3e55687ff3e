// The slots that the exchanges under way hold, by key. They are counted by thread, so that those of a thread that is gone
// come back.
import type { CounterKey } from "../core/counter-key.ts";
import type { Counters } from "./counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { Cursor } from "./table/cursor.ts";
import type { SlotRules } from "./table/slot-rules.ts";
import type { Span } from "./table/ticks.ts";

/** Nobody knows when an exchange ends, so a refused client is told to ask again after this time. */
const retryAfterMs = 1000;
/** Slots do not expire. */
const span: Span = { now: 0, window: Number.POSITIVE_INFINITY };

export class ConcurrencyCounters implements Counters {
  remaining = 0;
  resetMs = 0;
  readonly #table: CounterTable;
  readonly #slot: number;
  readonly #cursor = new Cursor();
  #units = 0;
  #nowMs = 0;

  constructor(table: CounterTable, slot: number, rules: SlotRules) {
    this.#table = table;
    this.#slot = slot;
    table.configure(slot, rules);
  }

  select(key: CounterKey, client: CounterKey): void {
    this.#table.select(this.#cursor, this.#slot, key, client);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    const taken = this.#table.count(this.#cursor, span, nowMs);
    const fits = taken >= 0 && taken + units <= limit;
    this.#units = units;
    this.#nowMs = nowMs;
    this.remaining = taken < 0 ? 0 : Math.max(0, limit - taken - (fits ? units : 0));
    this.resetMs = this.unspentResetMs(nowMs);
    return fits;
  }

  charge(): number {
    this.#table.addTo(this.#cursor, this.#table.thread, this.#units, this.#nowMs);
    return 0;
  }

  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number): void {
    const { locks } = this.#table;
    this.select(key, client);
    locks.acquire();
    try {
      this.remaining = Math.max(0, limit - this.#table.peek(this.#cursor, span));
    } finally {
      locks.release();
    }
    this.resetMs = this.unspentResetMs(nowMs);
  }

  giveBack(key: CounterKey, client: CounterKey, _limit: number, units: number): void {
    const { locks } = this.#table;
    this.select(key, client);
    locks.acquire();
    try {
      this.#table.remove(this.#cursor, this.#table.thread, units, 1);
    } finally {
      locks.release();
    }
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + retryAfterMs;
  }
}
