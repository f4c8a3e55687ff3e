// What a table says about clients: the units that are counted for each, wherever they are counted.

import { networkKey } from "../../../src/limits/table/eviction.ts";
import { geometryOf, shardAt } from "../../../src/limits/table/layout.ts";
import { type CounterRecord, recordsOf } from "../../../src/limits/table/maintenance.ts";

type Key = CounterRecord["key"];

/** A pair of a key: an instant, and the units that were admitted at it. */
export type Pair = readonly [at: number, units: number];

export class EffectiveUnits {
  readonly #records = new Map<string, CounterRecord>();

  constructor(memory: SharedArrayBuffer) {
    const w = new Int32Array(memory);
    const geometry = geometryOf(memory.byteLength);
    for (let index = 0; index < geometry.shards; index += 1) {
      const at = shardAt(index, geometry);
      for (const record of recordsOf(w.slice(at, at + geometry.shardWords))) {
        this.#records.set(nameOf(record.slot, record.kind, record.key), record);
      }
    }
  }

  /** All keys of a kind that are stored, by slot. */
  keys(kind: CounterRecord["kind"]): readonly CounterRecord[] {
    return [...this.#records.values()].filter((record) => record.kind === kind);
  }

  has(slot: number, key: Key): boolean {
    return this.#records.has(nameOf(slot, "own", key));
  }

  /** The pairs by which a client is limited: those of its own key, or of the key that is counted in its place. */
  of(slot: number, key: Key, client: Key): readonly Pair[] {
    const [a, b, c, d] = client;
    const network = networkKey({ a, b, c, d });
    const record =
      this.#records.get(nameOf(slot, "own", key)) ??
      this.#records.get(nameOf(slot, "client", client)) ??
      this.#records.get(nameOf(slot, "network", [network.a, network.b, network.c, network.d]));
    return record?.entries ?? [];
  }
}

function nameOf(slot: number, kind: string, key: Key): string {
  return `${slot} ${kind} ${key.join(" ")}`;
}
