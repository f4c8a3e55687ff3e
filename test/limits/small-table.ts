// A table of the smallest size, and keys by any text, for tests of what counts in it.
import { addressKey, type CounterKey } from "../../src/core/counter-key.ts";
import { parseCidr } from "../../src/core/ip-address.ts";
import { SipHash } from "../../src/core/sip-hash.ts";
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";

/** Places keys in the same way in each run. */
export const placeSecret = Buffer.alloc(16, 9);

export function smallTable(): CounterTable {
  return new CounterTable(createTableMemory(minTableBytes), { secret: placeSecret });
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
