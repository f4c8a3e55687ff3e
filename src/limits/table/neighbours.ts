// Networks in the table: /24 of IPv4, /48 of IPv6. Where a key goes is random, so the keys of a few buckets show what
// part of a shard, and of the table, a network holds.
import { CounterKey } from "../../core/counter-key.ts";
import {
  bucketAt,
  bucketEntries,
  type Geometry,
  isAddressKey,
  keyLine,
  kindOf,
  kinds,
  lineAt,
  lineOfEntry,
} from "./layout.ts";

/** A network with more than one key in so many is counted as one. */
const keysPerShare = 64;
/** Keys that are looked at. */
const sample = 2 * keysPerShare;

/** The network of an address key. */
export function networkKey({ a, b, c, d }: Pick<CounterKey, "a" | "b" | "c" | "d">): CounterKey {
  if (a === 0 && b === 0 && c === 0xffff) return new CounterKey(a, b, c, d & ~0xff, true);
  return new CounterKey(a, b & ~0xffff, 0, 0, true);
}

function isWithin(w: Int32Array, line: number, network: CounterKey): boolean {
  const { a, b, c, d } = network;
  if (w[line] !== a) return false;
  if (a === 0 && b === 0 && c === 0xffff) {
    return w[line + 1] === b && w[line + 2] === c && ((w[line + 3] as number) & ~0xff) === d;
  }
  return ((w[line + 1] as number) & ~0xffff) === b;
}

export function isOwnAddress(about: number): boolean {
  return isAddressKey(about) && kindOf(about) === kinds.own;
}

/** Returns whether a network holds more than its share, judged by the keys from a bucket on. */
export function holdsTooMuch(
  w: Int32Array,
  shard: number,
  from: number,
  network: CounterKey,
  geometry: Geometry,
): boolean {
  let seen = 0;
  let own = 0;
  for (let i = 0; i < geometry.buckets && seen < sample; i += 1) {
    const begin = bucketAt(shard, (from + i) % geometry.buckets) + 1;
    for (let at = begin; at < begin + bucketEntries && w[at] !== 0; at += 1) {
      const line = lineAt(shard, lineOfEntry(w[at] as number));
      seen += 1;
      if (isOwnAddress(w[line + keyLine.about] as number) && isWithin(w, line, network)) own += 1;
    }
  }
  return own * keysPerShare > seen;
}
