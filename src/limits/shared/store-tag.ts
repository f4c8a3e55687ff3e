// What the store calls the key of a counter: the same for all gateways.
import type { CounterKey } from "../../core/counter-key.ts";

/** Of each byte, since tags are made for each request. */
const hexOf = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Returns the tag of a key: an address, or a hash. */
export function storeTagOf({ a, b, c, d, isAddress }: Pick<CounterKey, "a" | "b" | "c" | "d" | "isAddress">): string {
  return `${isAddress ? "a" : "h"}${hex(a)}${hex(b)}${hex(c)}${hex(d)}`;
}

function hex(word: number): string {
  return `${hexOf[word >>> 24]}${hexOf[(word >>> 16) & 0xff]}${hexOf[(word >>> 8) & 0xff]}${hexOf[word & 0xff]}`;
}
