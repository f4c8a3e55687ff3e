// Memory for the tables of gateways. Runs use it one after the other, because a buffer for each of thousands of gateways
// keeps the garbage collector busy.
import { createTableMemory } from "../../src/limits/table/counter-table.ts";
import { formatShard } from "../../src/limits/table/directory.ts";
import { geometryOf, minTableBytes, shardAt } from "../../src/limits/table/layout.ts";

const geometry = geometryOf(minTableBytes);

export class TableMemory {
  readonly #blocks: SharedArrayBuffer[] = [];
  #taken = 0;

  /** An empty table. */
  take(): SharedArrayBuffer {
    const block = this.#blocks[this.#taken] ?? createTableMemory(minTableBytes);
    if (this.#blocks[this.#taken] === undefined) this.#blocks.push(block);
    else clear(block);
    this.#taken += 1;
    return block;
  }

  /** No table that was taken is used any more. */
  reuse(): void {
    this.#taken = 0;
  }
}

function clear(block: SharedArrayBuffer): void {
  const words = new Int32Array(block);
  words.fill(0);
  for (let index = 0; index < geometry.shards; index += 1) formatShard(words, shardAt(index, geometry), geometry);
}
