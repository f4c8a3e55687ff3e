// The coarse keys: a client in place of its keys, or a network in place of its clients, in shards of their own. They are
// used when a shard is full of keys that must not be forgotten. A network that holds more than its share is counted as
// one; if none does, the network of the new key is. All coarse shards have one lock, the last in the order.
import type { CounterKey } from "../../core/counter-key.ts";
import { Cursor } from "./cursor.ts";
import { addKey, findKey, freeEntry } from "./directory.ts";
import type { Eviction, TableParts } from "./eviction.ts";
import { addPair, eachPair } from "./key-log.ts";
import {
  bucketAt,
  bucketEntries,
  figures,
  header,
  keyLine,
  kinds,
  lineAt,
  lineOfEntry,
  shardAt,
  slotOf,
} from "./layout.ts";
import { freeLines, takeLine } from "./lines.ts";
import type { Locks } from "./locks.ts";
import { holdsTooMuch, isOwnAddress, networkKey } from "./neighbours.ts";
import { clearPairs } from "./pair-removal.ts";
import type { Places } from "./places.ts";

export interface CoarseParts extends TableParts {
  readonly places: Places;
  readonly eviction: Eviction;
  readonly locks: Locks;
}

/** Keys of the buckets whose networks are looked at. */
const candidates = 8;
/** The pairs that a network takes over from a key; with more, neighbours become one. */
const maxPairs = 64;

export class CoarseKeys {
  readonly #parts: CoarseParts;
  readonly #lockAt: number;
  readonly #network = new Cursor();

  constructor(parts: CoarseParts) {
    this.#parts = parts;
    this.#lockAt = shardAt(parts.geometry.ownShards, parts.geometry);
  }

  /** Points the cursor to the key of its client or of the client's network, if there is one. */
  find(cursor: Cursor): boolean {
    const { w, locks, places } = this.#parts;
    locks.acquireLast(this.#lockAt);
    if (this.#replacesByClient(cursor)) {
      places.point(cursor, kinds.client, cursor.client);
      cursor.line = findKey(w, cursor);
      if (cursor.line !== 0) return true;
    }
    places.point(cursor, kinds.network, networkKey(cursor.client));
    cursor.line = findKey(w, cursor);
    return cursor.line !== 0;
  }

  /** Points the cursor to its client's key or its network's, and adds it. Returns false if there is no room. */
  add(cursor: Cursor): boolean {
    const { locks, places } = this.#parts;
    locks.acquireLast(this.#lockAt);
    if (this.#replacesByClient(cursor)) {
      places.point(cursor, kinds.client, cursor.client);
      if (this.#add(cursor)) return true;
    }
    places.point(cursor, kinds.network, networkKey(cursor.client));
    return this.#add(cursor);
  }

  /**
   * Counts a key of a network with more than its share by its network, so that its line becomes free. Returns whether
   * the cursor's key can be added. False if its own network has more than its share.
   */
  makeRoom(cursor: Cursor): boolean {
    const { w, geometry, eviction, locks, rules } = this.#parts;
    const { shard, firstBucket } = cursor;
    if (cursor.key.isAddress && holdsTooMuch(w, shard, firstBucket, networkKey(cursor.key), geometry)) return false;
    locks.acquireLast(this.#lockAt);
    const begin = bucketAt(shard, firstBucket) + 1;
    let looked = 0;
    for (let at = begin; at < begin + bucketEntries && w[at] !== 0 && looked < candidates; at += 1) {
      const line = lineAt(shard, lineOfEntry(w[at] as number));
      if (!isOwnAddress(w[line + keyLine.about] as number) || rules.isConcurrency(line)) continue;
      looked += 1;
      const network = networkKey(this.#addressAt(line));
      if (!holdsTooMuch(w, shard, firstBucket, network, geometry) || !this.#absorb(shard, line, network)) continue;
      eviction.forget(shard, at);
      return freeEntry(w, cursor) !== 0;
    }
    return false;
  }

  /** Whether the key of a cursor is more than its client. */
  #replacesByClient({ key, client }: Cursor): boolean {
    return key !== client;
  }

  #add(cursor: Cursor): boolean {
    const { w, eviction, addTo } = this.#parts;
    cursor.line = findKey(w, cursor);
    if (cursor.line !== 0) return true;
    const { shard } = cursor;
    if (freeEntry(w, cursor) === 0 || freeLines(w, shard) === 0) {
      const victimAt = eviction.choose(cursor, freeEntry(w, cursor) !== 0);
      if (victimAt === 0) return false;
      eviction.remove(shard, victimAt);
    }
    addKey(w, cursor, takeLine(w, shard, cursor.homeLine), freeEntry(w, cursor));
    addTo(header.figures + cursor.slot * figures.words + figures.coarse, 1);
    addTo(header.coarseKeys, 1);
    return true;
  }

  #addressAt(line: number) {
    const { w } = this.#parts;
    const at = (i: number): number => w[line + i] as number;
    return { a: at(0), b: at(1), c: at(2), d: at(3) };
  }

  /** Adds the pairs of a key to those of its network, in order. The limit of the policy bounds what is worth keeping. */
  #absorb(shard: number, line: number, network: CounterKey): boolean {
    const { w, rules, places } = this.#parts;
    const cursor = this.#network;
    cursor.slot = slotOf(w[line + keyLine.about] as number);
    places.point(cursor, kinds.network, network);
    if (!this.#add(cursor)) return false;
    rules.worth(cursor.shard, cursor.line);
    const pairs = [...this.#pairsOf(shard, line), ...this.#pairsOf(cursor.shard, cursor.line)];
    // Of two instants the earlier one has the greater age; all are within one window of each other.
    const kept = newestUnits(
      pairs.sort((x, y) => (x[0] - y[0]) | 0),
      rules.limitOf(line),
    );
    clearPairs(w, cursor.shard, cursor.line);
    for (const [instant, units] of kept) addPair(w, cursor.shard, cursor.line, instant, units);
    return true;
  }

  #pairsOf(shard: number, line: number): [instant: number, units: number][] {
    const { w } = this.#parts;
    const pairs: [number, number][] = [];
    eachPair(w, shard, line, (at) => {
      pairs.push([w[at] as number, w[at + 1] as number]);
      return true;
    });
    return pairs;
  }
}

/** Returns the newest pairs that have `limit` units together, at most `maxPairs`. `pairs`: the oldest first. */
function newestUnits(pairs: readonly [number, number][], limit: number): readonly [number, number][] {
  let units = 0;
  const kept: [number, number][] = [];
  for (let i = pairs.length - 1; i >= 0 && units < limit; i -= 1) {
    const [instant, count] = pairs[i] as [number, number];
    units += count;
    kept.unshift([instant, count]);
  }
  const group = Math.ceil(kept.length / maxPairs);
  if (group <= 1) return kept;
  const merged: [number, number][] = [];
  for (let i = 0; i < kept.length; i += group) {
    const part = kept.slice(i, i + group);
    const [instant] = part.at(-1) as [number, number];
    merged.push([instant, part.reduce((sum, [, count]) => sum + count, 0)]);
  }
  return merged;
}
