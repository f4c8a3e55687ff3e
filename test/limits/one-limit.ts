// A table under one limit and one window, as the tests of the window ask it.

import type { CounterKey } from "../../src/core/counter-key.ts";
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import { rulesOf } from "../../src/limits/table/key-log.ts";
import type { SlotFigures } from "../../src/limits/table/maintenance.ts";
import { slidingPolicy } from "../support/policy.ts";
import { type Asking, askSliding } from "./asking.ts";
import { keyOf, reusedTable, smallTable } from "./small-table.ts";

export interface WindowLimit {
  readonly limit: number;
  readonly windowMs: number;
  /** What one request spends; 1 by default. */
  readonly units?: number;
}

export interface Answer {
  readonly outcome: "admitted" | "throttled" | "observed";
  readonly remaining: number;
  readonly resetMs: number;
}

const slot = 0;

export class LimitedTable {
  readonly policy: WindowLimit;
  readonly table: CounterTable;
  readonly #counters: Asking;
  readonly #keys = new Map<string, CounterKey>();

  constructor(policy: WindowLimit, table = smallTable()) {
    const { limit, windowMs, units = 1 } = policy;
    this.policy = policy;
    this.table = table;
    this.#counters = askSliding(table, slot, rulesOf(slidingPolicy({ limit, windowMs, cost: units })));
  }

  acquire(client: string, nowMs: number): Answer {
    const { limit, units = 1 } = this.policy;
    const key = this.#keyOf(client);
    const { locks } = this.table;
    const counters = this.#counters;
    counters.select(key, key);
    locks.acquire();
    const isAdmitted = counters.ask(limit, units, nowMs);
    if (isAdmitted) counters.charge();
    locks.release();
    const { remaining, resetMs } = counters;
    return { outcome: isAdmitted ? "admitted" : "throttled", remaining, resetMs };
  }

  peek(client: string, nowMs: number): Answer {
    const key = this.#keyOf(client);
    this.#counters.peek(key, key, this.policy.limit, nowMs);
    const { remaining, resetMs } = this.#counters;
    return { outcome: "observed", remaining, resetMs };
  }

  /** Gives one unit back that was admitted at an instant. */
  giveBack(client: string, instant: number): void {
    const key = this.#keyOf(client);
    this.#counters.giveBack(key, key, this.policy.limit, 1, instant);
  }

  stats(): SlotFigures {
    const figures = this.table.figures().bySlot[slot];
    if (figures === undefined) throw new Error("the slot has no figures");
    return figures;
  }

  /** Removes what has expired, in the whole table. */
  sweep(nowMs: number): void {
    while (!this.sweepPortion(nowMs));
  }

  /** Returns whether it was the last one. */
  sweepPortion(nowMs: number): boolean {
    return this.table.maintenance.sweep(nowMs);
  }

  #keyOf(client: string): CounterKey {
    const key = this.#keys.get(client) ?? keyOf(client);
    this.#keys.set(client, key);
    return key;
  }
}

/** The window of one client, in memory that the next one uses again. */
export class OneWindow {
  readonly #table: LimitedTable;

  constructor(policy: WindowLimit) {
    this.#table = new LimitedTable(policy, reusedTable());
  }

  take(nowMs: number): Answer {
    return this.#table.acquire("client", nowMs);
  }

  peek(nowMs: number): Answer {
    return this.#table.peek("client", nowMs);
  }
}
