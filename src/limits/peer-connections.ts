// Counts the open connections of each peer over all threads, in the table of the counters. They are counted by thread, so
// that those of a thread that has ended can be given back.
import type { Peer, PeerConnections } from "../core/client-address.ts";
import { Ask } from "./counters.ts";
import { ConcurrencyCounters } from "./slot-counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import type { SlotRules } from "./table/key-log.ts";
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
  readonly #ask = new Ask();
  readonly #nowMs: () => number;

  constructor(table: CounterTable, nowMs: () => number) {
    countPeersIn(table);
    this.#table = table;
    this.#counters = new ConcurrencyCounters(table, connectionSlot, rules);
    this.#nowMs = nowMs;
  }

  enter({ counterKey: key }: Peer, max: number): boolean {
    const ask = Object.assign(this.#ask, { key, client: key, limit: max });
    this.#counters.select(ask);
    return this.#table.locks.within(() => {
      const fits = this.#counters.ask(ask, this.#nowMs());
      if (fits) this.#counters.charge(ask);
      return fits;
    });
  }

  leave({ counterKey: key }: Peer): void {
    this.#counters.giveBack({ key, client: key, limit: 0, units: 1, charged: 0, marks: 0 });
  }
}
