// Finds the keys of a table that have used most, most of their limit, or were used last. Reads portions of the table, each within
// one turn of the event loop and with the lock of one shard. The units that a key stores are at least those that count, so only a
// key that may be among the first is counted and copied.
import type { TableMemory } from "./eviction.ts";
import { ageOf, eachPair, isExpired, newestPairAt, oldestInstant, type Span } from "./key-log.ts";
import {
  bucketAt,
  bucketEntries,
  keyLine,
  keyWordsAt,
  kindOf,
  lineAt,
  lineOfEntry,
  shardHeader,
  slotOf,
} from "./layout.ts";

/** What one list is about. */
export interface TopQuery {
  /** Null: those of all policies. */
  readonly slot: number | null;
  /** share: by the limit of the policy. */
  readonly sort: "used" | "share" | "recent";
  /** Keys that are listed; null: all. `line`: the word of a key's line, which begins with the key. */
  readonly matches: ((w: Int32Array, line: number, slot: number) => boolean) | null;
  /** At most so many; from 1. */
  readonly limit: number;
}

/** What counts of a slot, its policy's limit, and whether its pairs say when they were admitted. */
export interface SlotSpan extends Span {
  readonly limit: number;
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
    const { geometry } = this.#memory;
    this.#cost = 0;
    while (this.#shards.length > 0 && this.#cost < portionCost) {
      const index = this.#shards[0] as number;
      // Another thread is at work: what is left of the portion is for the next turn.
      if (!this.#memory.withShard(index, (shard) => this.#readShard(shard))) return this.#postpone(index);
      if (this.#bucket < geometry.buckets) return false;
      this.#shards.shift();
      this.#bucket = 0;
    }
    return this.#shards.length === 0;
  }

  /** The first keys of each query, in their order. */
  lists(): readonly (readonly TopKey[])[] {
    return this.#lists.map((list) => list.keys());
  }

  /** Puts a shard behind the others. Returns true after too many tries: then what was read so far is listed. */
  #postpone(index: number): boolean {
    this.#tries += 1;
    // A shard that is read in part goes on where it was.
    if (this.#bucket === 0) this.#shards.push(this.#shards.shift() ?? index);
    return this.#tries > maxTries * this.#memory.geometry.shards;
  }

  /** Reads buckets of a shard, as many as the portion has room for. */
  #readShard(shard: number): void {
    const { w, geometry } = this.#memory;
    if (w[shard + shardHeader.keys] === 0) this.#bucket = geometry.buckets;
    for (; this.#bucket < geometry.buckets && this.#cost < portionCost; this.#bucket += 1) {
      const begin = bucketAt(shard, this.#bucket) + 1;
      this.#cost += 1;
      for (let at = begin; at < begin + bucketEntries && w[at] !== 0; at += 1) {
        this.#readKey(shard, lineAt(shard, lineOfEntry(w[at] as number)));
      }
    }
  }

  #readKey(shard: number, line: number): void {
    const { w } = this.#memory;
    const slot = slotOf(w[line + keyLine.about] as number);
    const span = this.#spans[slot];
    const stored = w[line + keyLine.units] as number;
    this.#cost += 1;
    if (span === undefined || stored === 0) return;
    const age = this.#ageOf(shard, line, span);
    for (const list of this.#lists) {
      if (!list.isAbout(slot) || !list.admits(stored, age, span) || !this.#matches(list, line, slot)) continue;
      const units = this.#unitsOf(shard, line, stored, span);
      if (units > 0 && list.admits(units, age, span)) list.add(keyAt(w, line, units, age), age, span);
    }
  }

  #matches({ query: { matches } }: TopList, line: number, slot: number): boolean {
    if (matches === null) return true;
    this.#cost += matchCost;
    return matches(this.#memory.w, line, slot);
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

function keyAt(w: Int32Array, line: number, units: number, age: number): TopKey {
  const about = w[line + keyLine.about] as number;
  return {
    slot: slotOf(about),
    kind: kindOf(about),
    words: keyWordsAt(w, line),
    units,
    ageMs: age === unknownAge ? null : age,
  };
}

/** The first keys so far. All are sorted, and the last ones dropped, when there are twice as many as are listed. */
class TopList {
  readonly query: TopQuery;
  #listed: { readonly key: TopKey; readonly worth: number }[] = [];
  /** Enough keys are worth more. */
  #tooLittle = Number.NEGATIVE_INFINITY;

  constructor(query: TopQuery) {
    this.query = query;
  }

  isAbout(slot: number): boolean {
    return this.query.slot === null || this.query.slot === slot;
  }

  /** Whether a key of at most so many units may be among the first. */
  admits(units: number, age: number, { limit }: SlotSpan): boolean {
    return this.#worthOf(units, age, limit) > this.#tooLittle;
  }

  add(key: TopKey, age: number, { limit }: SlotSpan): void {
    this.#listed.push({ key, worth: this.#worthOf(key.units, age, limit) });
    if (this.#listed.length >= 2 * this.query.limit) this.#drop();
  }

  keys(): readonly TopKey[] {
    this.#drop();
    return this.#listed.map(({ key }) => key);
  }

  #drop(): void {
    const { limit } = this.query;
    this.#listed = this.#listed.sort((one, other) => other.worth - one.worth).slice(0, limit);
    if (this.#listed.length === limit) this.#tooLittle = this.#listed.at(-1)?.worth ?? this.#tooLittle;
  }

  #worthOf(units: number, age: number, limit: number): number {
    const { sort } = this.query;
    if (sort === "recent") return -age;
    return sort === "used" ? units : units / limit;
  }
}
