// Counts the open connections of each peer over all threads, in the table of the counters. They are counted by thread, so
// that those of a thread that has ended can be given back.
import type { Peer } from "../core/client-address.ts";
import type { PeerConnections } from "../core/connection-count.ts";
import { ConcurrencyCounters } from "./counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import type { SlotRules } from "./table/eviction.ts";
import { connectionSlot } from "./table/layout.ts";

/** The table need not know the limit, because keys of this kind are never forgotten. */
const rules: SlotRules = { kind: "concurrency", windowMs: 0, limit: 1, cost: 1 };

/** Each thread that uses the table has to know what the slot counts, also one that accepts no connection. */
export function countPeersIn(table: CounterTable): void {
  table.configure(connectionSlot, rules);
}

export class SharedPeerConnections implements PeerConnections {
  readonly #table: CounterTable;
  readonly #counters: ConcurrencyCounters;
  readonly #nowMs: () => number;

  constructor(table: CounterTable, nowMs: () => number) {
    this.#table = table;
    this.#counters = new ConcurrencyCounters(table, connectionSlot, rules);
    this.#nowMs = nowMs;
  }

  enter({ counterKey }: Peer, max: number): boolean {
    const { locks } = this.#table;
    this.#counters.select(counterKey, counterKey);
    locks.acquire();
    try {
      const fits = this.#counters.ask(max, 1, this.#nowMs());
      if (fits) this.#counters.charge();
      return fits;
    } finally {
      locks.release();
    }
  }

  leave({ counterKey }: Peer): void {
    this.#counters.giveBack(counterKey, counterKey, 0, 1, 0);
  }
}
