// What the counters of all kinds have in common: a slot of the table, and the locks around a look and a return. What a kind
// adds is how it counts.
import type { CounterKey } from "../core/counter-key.ts";
import type { LocalCounters, OwnCount } from "./counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { Cursor } from "./table/cursor.ts";

export abstract class TableCounters implements LocalCounters {
  remaining = 0;
  resetMs = 0;
  readonly mayEndSoon: boolean = false;
  protected readonly table: CounterTable;
  protected readonly slot: number;
  /** Of what was looked at last. */
  readonly cursor = new Cursor();
  readonly #retirements: number;

  constructor(table: CounterTable, slot: number) {
    this.table = table;
    this.slot = slot;
    this.#retirements = table.retirementsOf(slot);
  }

  select(key: CounterKey, client: CounterKey): void {
    this.table.select(this.cursor, this.slot, key, client);
  }

  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number, units = 1): void {
    const { locks } = this.table;
    this.select(key, client);
    locks.acquire();
    try {
      this.look(limit, nowMs, units);
    } finally {
      locks.release();
    }
  }

  keep(): void {
    // The table knows nothing about a single charge.
  }

  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    const { locks } = this.table;
    this.select(key, client);
    locks.acquire();
    try {
      return this.lookAtOwn(nowMs);
    } finally {
      locks.release();
    }
  }

  giveBack(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    const { locks } = this.table;
    // Another policy may have the slot of one that is gone.
    if (this.table.retirementsOf(this.slot) !== this.#retirements) return;
    this.select(key, client);
    locks.acquire();
    try {
      this.remove(limit, units, charged);
    } finally {
      locks.release();
    }
  }

  abstract ask(limit: number, units: number, nowMs: number): boolean;
  abstract charge(): number;
  abstract unspentResetMs(nowMs: number): number;
  /** `peek` of the key that is selected, with the locks held. */
  protected abstract look(limit: number, nowMs: number, units: number): void;
  /** `own` of the key that is selected, with the locks held. */
  protected abstract lookAtOwn(nowMs: number): OwnCount | null;
  /** `giveBack` of the key that is selected, with the locks held. */
  protected abstract remove(limit: number, units: number, charged: number): void;
}
