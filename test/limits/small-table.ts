// A table of the smallest size, and keys by any text, for tests of what counts in it.
import { addressKey, type CounterKey } from "../../src/core/counter-key.ts";
import { parseCidr } from "../../src/core/ip-address.ts";
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { formatShard } from "../../src/limits/table/directory.ts";
import type { TableOptions } from "../../src/limits/table/eviction.ts";
import { geometryOf, minTableBytes, shardAt } from "../../src/limits/table/layout.ts";
import { SipHash } from "../../src/limits/table/sip-hash.ts";
import { inFullOr } from "../support/runs.ts";

/** Places keys in the same way in each run. */
export const placeSecret = Buffer.alloc(16, 9);

export function smallTable(options: Omit<TableOptions, "secret"> = {}, bytes = minTableBytes): CounterTable {
  return new CounterTable(createTableMemory(bytes), { ...options, secret: placeSecret });
}

/** Of a table that a test fills, and of the keys with which it does so: a part in `npm test`, because that takes long. */
export const filledPart = inFullOr(1, 1 / 4);
export const filledBytes = minTableBytes * filledPart;

const geometry = geometryOf(minTableBytes);
const reused = createTableMemory(minTableBytes);
const words = new Int32Array(reused);
let isShared = false;

/**
 * Returns an empty table in the memory of the one before, which must no longer be used: for properties, because a buffer
 * for each of thousands of runs keeps the garbage collector busy. Every second one takes locks, as with several threads.
 */
export function reusedTable(): CounterTable {
  words.fill(0);
  for (let index = 0; index < geometry.shards; index += 1) formatShard(words, shardAt(index, geometry), geometry);
  isShared = !isShared;
  return new CounterTable(reused, { secret: placeSecret, isShared });
}

const sipHash = new SipHash(Buffer.alloc(16, 3));

/** The key of a client whose text is an address or a network; of any other text, a hash. */
export function keyOf(text: string): CounterKey {
  const cidr = parseCidr(text);
  return cidr === undefined ? sipHash.key(Buffer.from(text)) : addressKey(cidr.network, cidr.prefixBits);
}

/** An address of 198.18.0.0/15: a different one for each number below 131,072. */
export function addressAt(i: number): string {
  return `198.${18 + (i >>> 16)}.${(i >>> 8) & 0xff}.${i & 0xff}`;
}
