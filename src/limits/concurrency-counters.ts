// The units that the exchanges under way hold, by key. They are counted by thread, so that those of a thread that has
// ended can be given back.
import { heldRetryMs } from "./counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import type { SlotRules } from "./table/slot-rules.ts";
import type { Span } from "./table/ticks.ts";
import { TableCounters } from "./table-counters.ts";

/** Units that are held do not expire. */
const span: Span = { now: 0, window: Number.POSITIVE_INFINITY };

export class ConcurrencyCounters extends TableCounters {
  override readonly mayEndSoon = true;
  #units = 0;
  #nowMs = 0;

  constructor(table: CounterTable, slot: number, rules: SlotRules) {
    super(table, slot);
    table.configure(slot, rules);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    const taken = this.table.count(this.cursor, span, nowMs);
    const fits = taken >= 0 && taken + units <= limit;
    this.#units = units;
    this.#nowMs = nowMs;
    this.remaining = taken < 0 ? 0 : Math.max(0, limit - taken - (fits ? units : 0));
    this.resetMs = this.unspentResetMs(nowMs);
    return fits;
  }

  charge(): number {
    this.table.addTo(this.cursor, this.table.thread, this.#units, this.#nowMs);
    return 0;
  }

  protected look(limit: number, nowMs: number): void {
    this.remaining = Math.max(0, limit - this.table.peek(this.cursor, span));
    this.resetMs = this.unspentResetMs(nowMs);
  }

  /** Slots are told by renewing their leases. */
  protected lookAtOwn(): null {
    return null;
  }

  protected remove(_limit: number, units: number): void {
    this.table.removeFrom(this.cursor, this.table.thread, units);
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + heldRetryMs;
  }
}
