// Finds the keys of a table that have used most, or were used last. Reads portions of the table, each within one turn of the
// event loop and with the lock of one shard, and makes no object for a key: the units that a key stores are at least those
// that count, so only a key that may be among the first is counted.
import type { TableMemory } from "./eviction.ts";
import { ageOf, eachPair, isExpired, newestPairAt, oldestInstant, type Span } from "./key-log.ts";
import {
  bucketAt,
  bucketEntries,
  keyLine,
  kindOf,
  lineAt,
  lineOfEntry,
  shardAt,
  shardHeader,
  slotOf,
} from "./layout.ts";

/** What one list is about. */
export interface TopQuery {
  /** Null: those of all policies. */
  readonly slot: number | null;
  readonly sort: "used" | "recent";
  /** Keys that are listed; null: all. `line`: the word of a key's line, which begins with the key. */
  readonly matches: ((w: Int32Array, line: number, slot: number) => boolean) | null;
  /** At most so many; from 1. */
  readonly limit: number;
}

/** What counts of a slot, and whether its pairs say when they were admitted. */
export interface SlotSpan extends Span {
  readonly hasInstants: boolean;
}

export interface TopKey {
  readonly slot: number;
  /** One of `kinds`. */
  readonly kind: number;
  readonly words: readonly [number, number, number, number];
  readonly units: number;
  /** Since the newest admission; null: not known. */
  readonly ageMs: number | null;
}

/** The most that one portion costs: 1 for each key, 4 more to compare its name, a quarter for each pair that is read. */
const portionCost = 3_000;
const matchCost = 4;
const pairsPerCost = 4;
/** A shard that is busy is tried again so often, after the others. */
const maxTries = 100;

export class TopKeys {
  readonly #memory: TableMemory;
  readonly #lists: readonly TopList[];
  /** By slot; undefined: not listed, as what is held. */
  readonly #spans: readonly (SlotSpan | undefined)[];
  /** Indices of the shards that are not done. */
  readonly #shards: number[];
  #bucket = 0;
  #tries = 0;
  #cost = 0;

  /** `spans`: by slot. */
  constructor(memory: TableMemory, queries: readonly TopQuery[], spans: readonly (SlotSpan | undefined)[]) {
    this.#memory = memory;
    this.#lists = queries.map((query) => new TopList(query));
    this.#spans = spans;
    this.#shards = Array.from({ length: memory.geometry.shards }, (_, i) => i);
  }

  /** Reads the next portion. Returns whether it was the last one. */
  readPortion(): boolean {
    const { geometry, locks } = this.#memory;
    this.#cost = 0;
    while (this.#cost < portionCost) {
      const index = this.#shards[0];
      if (index === undefined) return true;
      const lockAt = shardAt(Math.min(index, geometry.ownShards), geometry) + shardHeader.lock;
      if (!locks.tryAcquire(lockAt)) {
        if (!this.#postpone(index)) return true;
        // Another thread is at work: what is left of the portion is for the next turn.
        return false;
      }
      const isDone = this.#readShard(shardAt(index, geometry));
      locks.free(lockAt);
      if (!isDone) return false;
      this.#shards.shift();
      this.#bucket = 0;
    }
    return this.#shards.length === 0;
  }

  /** The first keys of each query, in their order. */
  lists(): readonly (readonly TopKey[])[] {
    return this.#lists.map((list) => list.sorted());
  }

  /** Puts a shard behind the others. Returns false after too many tries: then what was read so far is listed. */
  #postpone(index: number): boolean {
    this.#tries += 1;
    // A shard that is read in part goes on where it was.
    if (this.#bucket === 0) this.#shards.push(this.#shards.shift() ?? index);
    return this.#tries <= maxTries * this.#memory.geometry.shards;
  }

  /** Returns whether the whole shard is read. */
  #readShard(shard: number): boolean {
    const { w, geometry } = this.#memory;
    if (w[shard + shardHeader.keys] === 0) this.#bucket = geometry.buckets;
    for (; this.#bucket < geometry.buckets; this.#bucket += 1) {
      if (this.#cost >= portionCost) return false;
      const begin = bucketAt(shard, this.#bucket) + 1;
      this.#cost += 1;
      for (let at = begin; at < begin + bucketEntries && w[at] !== 0; at += 1) {
        this.#readKey(shard, lineAt(shard, lineOfEntry(w[at] as number)));
      }
    }
    return true;
  }

  #readKey(shard: number, line: number): void {
    const { w } = this.#memory;
    const slot = slotOf(w[line + keyLine.about] as number);
    const span = this.#spans[slot];
    const stored = w[line + keyLine.units] as number;
    this.#cost += 1;
    if (span === undefined || stored === 0) return;
    let units = -1;
    for (const list of this.#lists) {
      if (list.slot !== null && list.slot !== slot) continue;
      if (list.isByUse && !list.admits(stored)) continue;
      const age = list.isByUse ? 0 : this.#ageOf(shard, line, span);
      if (!list.isByUse && !list.admits(-age)) continue;
      if (list.matches !== null) {
        this.#cost += matchCost;
        if (!list.matches(w, line, slot)) continue;
      }
      if (units < 0) units = this.#unitsOf(shard, line, stored, span);
      if (units > 0) list.add(list.isByUse ? units : -age, w, line, units, this.#ageOf(shard, line, span));
    }
  }

  /** Without what has expired, which is left where it is. */
  #unitsOf(shard: number, line: number, stored: number, { now, window }: Span): number {
    const { w } = this.#memory;
    if (!isExpired(oldestInstant(w, line), now, window)) return stored;
    let units = stored;
    let pairs = 0;
    eachPair(w, shard, line, (at) => {
      pairs += 1;
      if (!isExpired(w[at] as number, now, window)) return false;
      units -= w[at + 1] as number;
      return true;
    });
    this.#cost += pairs / pairsPerCost;
    return units;
  }

  /** `unknownAge` where a pair does not say when it was admitted. */
  #ageOf(shard: number, line: number, { now, window, hasInstants }: SlotSpan): number {
    const { w } = this.#memory;
    // Under way.
    if (window === Number.POSITIVE_INFINITY) return 0;
    const at = newestPairAt(w, shard, line);
    return hasInstants && at !== 0 ? Math.max(0, ageOf(w[at] as number, now)) : unknownAge;
  }
}

/** Longer than any window. */
const unknownAge = 2 ** 33;

/** Words of an entry: the key, `about`, its units. */
const entryWords = 6;

/** The first keys so far, as a heap: the last of them is at its root. */
class TopList {
  readonly slot: number | null;
  readonly isByUse: boolean;
  readonly matches: TopQuery["matches"];
  readonly #worth: Float64Array;
  readonly #ages: Float64Array;
  readonly #entries: Int32Array;
  #size = 0;

  constructor({ slot, sort, matches, limit }: TopQuery) {
    this.slot = slot;
    this.isByUse = sort === "used";
    this.matches = matches;
    this.#worth = new Float64Array(limit);
    this.#ages = new Float64Array(limit);
    this.#entries = new Int32Array(limit * entryWords);
  }

  /** Whether a key of at most this worth may be added. */
  admits(worth: number): boolean {
    return this.#size < this.#worth.length || worth > (this.#worth[0] as number);
  }

  add(worth: number, w: Int32Array, line: number, units: number, age: number): void {
    if (!this.admits(worth)) return;
    let at = 0;
    if (this.#size < this.#worth.length) {
      at = this.#size;
      this.#size += 1;
      for (let above = (at - 1) >> 1; at > 0 && (this.#worth[above] as number) > worth; above = (at - 1) >> 1) {
        this.#move(above, at);
        at = above;
      }
    } else at = this.#sink(worth);
    this.#worth[at] = worth;
    this.#ages[at] = age;
    const entry = at * entryWords;
    for (let i = 0; i <= keyLine.about; i += 1) this.#entries[entry + i] = w[line + i] as number;
    this.#entries[entry + entryWords - 1] = units;
  }

  sorted(): TopKey[] {
    const order = Array.from({ length: this.#size }, (_, i) => i);
    order.sort((i, j) => (this.#worth[j] as number) - (this.#worth[i] as number));
    return order.map((i) => {
      const [a = 0, b = 0, c = 0, d = 0, about = 0, units = 0] = this.#entries.subarray(i * entryWords);
      const age = this.#ages[i] as number;
      return {
        slot: slotOf(about),
        kind: kindOf(about),
        words: [a, b, c, d],
        units,
        ageMs: age === unknownAge ? null : age,
      };
    });
  }

  /** Makes room in place of the root, for an entry of this worth. Returns where. */
  #sink(worth: number): number {
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= this.#size) return at;
      if (below + 1 < this.#size && (this.#worth[below + 1] as number) < (this.#worth[below] as number)) below += 1;
      if ((this.#worth[below] as number) >= worth) return at;
      this.#move(below, at);
      at = below;
    }
  }

  #move(from: number, to: number): void {
    this.#worth[to] = this.#worth[from] as number;
    this.#ages[to] = this.#ages[from] as number;
    this.#entries.copyWithin(to * entryWords, from * entryWords, (from + 1) * entryWords);
  }
}
