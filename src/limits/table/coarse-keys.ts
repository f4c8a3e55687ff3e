// The coarse keys: a client in place of its keys, or a network in place of its clients, in shards of their own. They are
// used when a shard is full of keys that must not be forgotten. A network that holds more than its share is counted as
// one; if none does, the network of the new key is. All coarse shards have one lock, the last in the order.
import type { CounterKey } from "../../core/counter-key.ts";
import { Cursor } from "./cursor.ts";
import { addKey, findKey, freeEntry } from "./directory.ts";
import type { EvictingParts } from "./eviction.ts";
import { addPair, eachPair, joinNewest, newestPairAt } from "./key-log.ts";
import {
  bucketAt,
  bucketEntries,
  figureAt,
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
import { holdsTooMuch, isOwnAddress, networkKey } from "./neighbours.ts";

/** Keys of the buckets whose networks are looked at. */
const candidates = 8;
/** The pairs that a network takes over from a key; with more, neighbours become one. */
const maxPairs = 64;

export class CoarseKeys {
  readonly #parts: EvictingParts;
  readonly #lockAt: number;
  readonly #network = new Cursor();

  constructor(parts: EvictingParts) {
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
      if (!isOwnAddress(w[line + keyLine.about] as number) || rules.isConcurrency(line) || rules.isHeld(line)) continue;
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
    // Nobody looks for coarse keys while this is 0.
    addTo(header.coarseKeys, 1);
    addKey(w, cursor, takeLine(w, shard, cursor.homeLine), freeEntry(w, cursor));
    addTo(figureAt(cursor.slot, figures.coarse), 1);
    return true;
  }

  #addressAt(line: number) {
    const { w } = this.#parts;
    const at = (i: number): number => w[line + i] as number;
    return { a: at(0), b: at(1), c: at(2), d: at(3) };
  }

  /** Adds the units of a key to those of its network. Returns false if there is no room for the network. */
  #absorb(shard: number, line: number, network: CounterKey): boolean {
    const { w, rules, places } = this.#parts;
    const cursor = this.#network;
    cursor.slot = slotOf(w[line + keyLine.about] as number);
    places.point(cursor, kinds.network, network);
    if (!this.#add(cursor)) return false;
    // What has expired is not added.
    rules.worth(shard, line);
    rules.worth(cursor.shard, cursor.line);
    // A client with an override may have more than the limit of the policy.
    const limit = Math.max(rules.limitOf(line), w[line + keyLine.units] as number);
    for (const [instant, units] of grouped(this.#pairsOf(shard, line))) {
      this.#addUnits(cursor, instant, units, limit);
    }
    return true;
  }

  /** Units that are older than the newest of the network count as long as those. More than the limit are not needed. */
  #addUnits({ shard, line }: Cursor, instant: number, units: number, limit: number): void {
    const { w } = this.#parts;
    const newestAt = newestPairAt(w, shard, line);
    const isLater = newestAt === 0 || ((instant - (w[newestAt] as number)) | 0) > 0;
    if (isLater && (w[line + keyLine.units] as number) < limit) {
      addPair(w, shard, line, instant, units);
      return;
    }
    const later = isLater ? instant : (w[newestAt] as number);
    joinNewest(w, shard, line, newestAt, later, Math.max(0, Math.min(units, limit - (w[newestAt + 1] as number))));
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

/** Returns at most `maxPairs`: of neighbours, the older ones join the newest. */
function grouped(pairs: readonly [number, number][]): readonly [number, number][] {
  const group = Math.ceil(pairs.length / maxPairs);
  if (group <= 1) return pairs;
  const groups: [number, number][] = [];
  for (let i = 0; i < pairs.length; i += group) {
    const part = pairs.slice(i, i + group);
    const [instant] = part.at(-1) as [number, number];
    groups.push([instant, part.reduce((sum, [, units]) => sum + units, 0)]);
  }
  return groups;
}
