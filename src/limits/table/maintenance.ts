// What the thread that owns the table does for it: removes what has expired, copies shards for a snapshot, and repairs
// what a thread was changing when it ended. It never waits for a lock, because it has to notice threads that end.
import { CounterKey } from "../../core/counter-key.ts";
import { Cursor, clearLines, findKey, freeEntry, freeLines, useLine } from "./directory.ts";
import type { Eviction, TableMemory } from "./eviction.ts";
import { addPair, eachPair, type Pair, pairsOf, removeUnits } from "./key-log.ts";
import {
  blockOfRef,
  blockPairAt,
  bucketAt,
  bucketEntries,
  bytesPerWord,
  figureAt,
  figures,
  firstBucketOf,
  firstDataLine,
  type Geometry,
  header,
  indexOfRef,
  isAddressKey,
  isMarkedExhausted,
  keyLine,
  keyWordsAt,
  kindOf,
  kinds,
  lineAt,
  lineOfEntry,
  linesPerBucket,
  lineWords,
  nextBlock,
  shardAt,
  shardHeader,
  slotOf,
  slots,
  withExhausted,
} from "./layout.ts";

export interface TableFigures {
  /** Of lines in use. */
  readonly usedBytes: number;
  /** Of lines that new keys can take before others have to go. */
  readonly freeBytes: number;
  readonly bySlot: readonly SlotFigures[];
}

export interface SlotFigures {
  /** Stored keys, without the coarse ones. */
  readonly keys: number;
  readonly evictedExpired: number;
  readonly evictedLive: number;
  /** Admissions whose instant was merged with a later one, because no memory was free. */
  readonly merged: number;
  /** Clients and networks that are counted in place of keys without room. */
  readonly coarse: number;
  readonly forgiven: number;
}

/** Keys and buckets that one portion looks at: well below a millisecond. */
const keysInPortion = 512;
const bucketsInPortion = 1024;
/** Lines that are searched at a time for units of threads that are gone: in a few milliseconds. */
const linesInPortion = 32_768;

export class Maintenance {
  readonly #memory: TableMemory;
  readonly #eviction: Eviction;
  #shard = 0;
  #bucket = 0;
  /** Shards that may have units of a thread that is gone, with the thread. */
  #unsearched: { readonly index: number; readonly thread: number }[] = [];

  constructor(memory: TableMemory, eviction: Eviction) {
    this.#memory = memory;
    this.#eviction = eviction;
  }

  get shardCount(): number {
    return this.#memory.geometry.shards;
  }

  /** Removes what has expired, in one portion of the table. Returns whether that was its last portion. */
  sweep(nowMs: number): boolean {
    const { w, geometry, rules } = this.#memory;
    rules.setNow(nowMs);
    this.#giveBack();
    const isLocked = this.#memory.withShard(this.#shard, (shard) => {
      let keys = 0;
      const end = Math.min(geometry.buckets, this.#bucket + bucketsInPortion);
      // In an idle gateway this loop would be the only work, and be compiled, which takes memory.
      if (w[shard + shardHeader.keys] === 0) this.#bucket = end;
      for (; this.#bucket < end && keys < keysInPortion; this.#bucket += 1) keys += this.#sweepBucket(shard);
    });
    // A shard that is busy is swept in the next pass.
    if (isLocked && this.#bucket < geometry.buckets) return false;
    this.#bucket = 0;
    this.#shard = (this.#shard + 1) % geometry.shards;
    return this.#shard === 0;
  }

  /** Returns a copy of a shard; null if it is busy. */
  copyShard(index: number): Int32Array | null {
    const { w, geometry } = this.#memory;
    let copy: Int32Array | null = null;
    this.#memory.withShard(index, (shard) => {
      copy = w.slice(shard, shard + geometry.shardWords);
    });
    return copy;
  }

  /** Adds a key of a snapshot. Returns false if there is no room, or the key is stored already. Before traffic. */
  restore({ slot, kind, key: [a, b, c, d], isAddress, entries }: CounterRecord): boolean {
    const { w, places } = this.#memory;
    const cursor = new Cursor();
    cursor.slot = slot;
    places.point(cursor, kinds[kind], new CounterKey(a, b, c, d, isAddress));
    const hasRoom = freeEntry(w, cursor) !== 0 && freeLines(w, cursor.shard) > 0;
    if (!hasRoom || findKey(w, cursor) !== 0) return false;
    this.#memory.add(cursor);
    const { shard, line } = cursor;
    for (const [at, units] of entries) {
      if (units > 0) addPair(w, shard, line, at | 0, units);
      else w[line + keyLine.about] = withExhausted(w[line + keyLine.about] as number, true);
    }
    return true;
  }

  /**
   * Repairs what a thread has left, frees its locks, and gives back what it held under `concurrency`. The thread must be
   * gone.
   */
  recover(thread: number): void {
    const { w, geometry, locks } = this.#memory;
    if (locks.isHeldBy(header.calendarLock, thread)) locks.free(header.calendarLock);
    for (let index = 0; index < geometry.shards; index += 1) {
      const shard = shardAt(index, geometry);
      if (!locks.isHeldBy(shard + shardHeader.lock, thread)) continue;
      // The coarse shards have the lock of the first one.
      const last = index === geometry.ownShards ? geometry.shards : index + 1;
      for (let i = index; i < last; i += 1) repairShard(w, shardAt(i, geometry), geometry);
      locks.free(shard + shardHeader.lock);
    }
    for (let index = 0; index < geometry.shards; index += 1) this.#unsearched.push({ index, thread });
    this.#giveBack();
  }

  figures(): TableFigures {
    const { w, geometry } = this.#memory;
    let used = 0;
    let forKeys = 0;
    for (let index = 0; index < geometry.shards; index += 1) {
      const free = freeLines(w, shardAt(index, geometry));
      used += geometry.shardLines - firstDataLine(geometry) - free;
      if (index < geometry.ownShards) forKeys += Math.max(0, free - geometry.reserved);
    }
    return {
      usedBytes: used * lineWords * bytesPerWord,
      freeBytes: forKeys * lineWords * bytesPerWord,
      bySlot: Array.from({ length: slots }, (_, slot) => {
        const of = (figure: number): number => w[figureAt(slot, figure)] as number;
        return {
          // Below 0 if a thread has ended between adding or removing a key and counting it.
          keys: Math.max(0, of(figures.keys)),
          evictedExpired: of(figures.evictedExpired) >>> 0,
          evictedLive: of(figures.evictedLive) >>> 0,
          merged: of(figures.merged) >>> 0,
          forgiven: of(figures.forgiven) >>> 0,
          coarse: Math.max(0, of(figures.coarse)),
        };
      }),
    };
  }

  /** Returns the keys that were looked at. */
  #sweepBucket(shard: number): number {
    const { w, rules } = this.#memory;
    const begin = bucketAt(shard, this.#bucket) + 1;
    let keys = 0;
    for (let at = begin; at < begin + bucketEntries && w[at] !== 0; ) {
      keys += 1;
      // The last key of the bucket takes the place of one that is removed.
      if (rules.worth(shard, lineAt(shard, lineOfEntry(w[at] as number))) === 0) this.#eviction.remove(shard, at);
      else at += 1;
    }
    return keys;
  }

  /**
   * Removes the units under `concurrency` of threads that are gone, and what is known of units that are held, in a portion
   * of the shards that are not busy.
   */
  #giveBack(): void {
    if (this.#unsearched.length === 0) return;
    let lines = 0;
    this.#unsearched = this.#unsearched.filter(({ index, thread }) => {
      if (lines >= linesInPortion) return true;
      lines += this.#memory.geometry.shardLines;
      return !this.#memory.withShard(index, (shard) => this.#giveBackOf(shard, thread));
    });
  }

  #giveBackOf(shard: number, thread: number): void {
    const { w, geometry, rules } = this.#memory;
    for (let bucket = 0; bucket < geometry.buckets; bucket += 1) {
      const begin = bucketAt(shard, bucket) + 1;
      for (let at = begin; at < begin + bucketEntries && w[at] !== 0; ) {
        const line = lineAt(shard, lineOfEntry(w[at] as number));
        // Nobody knows which thread holds them. Units that nobody gives back must not count as held, so all count as kept.
        if (rules.isHeld(line)) {
          this.#eviction.forget(shard, at);
          continue;
        }
        if (rules.isConcurrency(line)) this.#giveBackIn(shard, line, thread);
        at += 1;
      }
    }
  }

  /** Removes the pairs of a thread, and those that stand twice because that thread was moving them when it ended. */
  #giveBackIn(shard: number, line: number, thread: number): void {
    const { w } = this.#memory;
    let found = 0;
    do {
      const seen = new Set([thread]);
      found = 0;
      eachPair(w, shard, line, (pair) => {
        const owner = w[pair] as number;
        if (seen.has(owner)) found = pair;
        seen.add(owner);
        return found === 0;
      });
      if (found !== 0) removeUnits(w, shard, line, found, w[found + 1] as number);
    } while (found !== 0);
  }
}

// Makes a shard sound again after a thread has ended while it was changing it. Every change shows by the store of one
// word, so the directory leads to nothing but whole keys; what is calculated from them may be wrong: which lines are
// free, the sums of units, the keys that are in their second bucket.

/** `shard`: the word at which it begins. Nobody else may use it. */
export function repairShard(w: Int32Array, shard: number, geometry: Geometry): void {
  const isUsed = new Uint8Array(geometry.shardLines);
  const away = new Int32Array(geometry.buckets);
  let keys = 0;
  for (let bucket = 0; bucket < geometry.buckets; bucket += 1) {
    keys += repairBucket(w, shard, bucket, isUsed, away);
  }
  for (let bucket = 0; bucket < geometry.buckets; bucket += 1) w[bucketAt(shard, bucket)] = away[bucket] as number;
  w[shard + shardHeader.keys] = keys;
  freeUnused(w, shard, geometry, isUsed);
}

/** Returns the keys of the bucket. */
function repairBucket(w: Int32Array, shard: number, bucket: number, isUsed: Uint8Array, away: Int32Array): number {
  const begin = bucketAt(shard, bucket) + 1;
  let keys = 0;
  for (let at = begin; at < begin + bucketEntries; at += 1) {
    const entry = w[at] as number;
    const number = lineOfEntry(entry);
    w[at] = 0;
    // An entry that was being moved stands twice.
    if (entry === 0 || isUsed[number] !== 0) continue;
    w[begin + keys] = entry;
    keys += 1;
    isUsed[number] = 1;
    const line = lineAt(shard, number);
    repairKey(w, shard, line, isUsed);
    const first = firstBucketOf(w[line + keyLine.about] as number);
    if (first >= 0) away[first] = (away[first] as number) + 1;
  }
  return keys;
}

function repairKey(w: Int32Array, shard: number, line: number, isUsed: Uint8Array): void {
  let units = 0;
  eachPair(w, shard, line, (at) => {
    units += w[at + 1] as number;
    return true;
  });
  w[line + keyLine.units] = units;
  const oldest = w[line + keyLine.oldest] as number;
  if (oldest === 0) return;
  w[line + keyLine.pairs] = w[blockPairAt(shard, blockOfRef(oldest), indexOfRef(oldest))] as number;
  const last = blockOfRef(w[line + keyLine.newest] as number);
  for (let number = blockOfRef(oldest); ; number = nextBlock(w, shard, number)) {
    isUsed[number] = 1;
    if (number === last) return;
  }
}

function freeUnused(w: Int32Array, shard: number, geometry: Geometry, isUsed: Uint8Array): void {
  clearLines(w, shard, geometry);
  for (let number = firstDataLine(geometry); number < geometry.shardLines; number += 1) {
    if (isUsed[number] !== 0) useLine(w, shard, number);
    else w[lineAt(shard, number) + keyLine.about] = 0;
  }
}

// The keys of a shard as records that do not depend on its layout, for a snapshot.

export interface CounterRecord {
  readonly slot: number;
  /** Of the key: its own, or the client or the network that is counted in its place. */
  readonly kind: keyof typeof kinds;
  readonly key: readonly [number, number, number, number];
  readonly isAddress: boolean;
  /**
   * The oldest first. The instant is of a sliding policy a tick, of a calendar the number of a period, of concurrency that of a
   * thread. An exhausted key repeats the last one without units, which older versions read as nothing.
   */
  readonly entries: readonly Pair[];
}

const kindNames = [undefined, "own", "client", "network"] as const;

/** `shard`: a copy of one whole shard. */
export function* recordsOf(shard: Int32Array): Iterable<CounterRecord> {
  const buckets = Math.floor(shard.length / lineWords / linesPerBucket);
  for (let bucket = 0; bucket < buckets; bucket += 1) {
    const begin = bucketAt(0, bucket) + 1;
    for (let at = begin; at < begin + bucketEntries && shard[at] !== 0; at += 1) {
      yield recordAt(shard, lineAt(0, lineOfEntry(shard[at] as number)));
    }
  }
}

function recordAt(shard: Int32Array, line: number): CounterRecord {
  const about = shard[line + keyLine.about] as number;
  const entries = pairsOf(shard, 0, line);
  const last = entries.at(-1);
  if (last !== undefined && isMarkedExhausted(about)) entries.push([last[0], 0]);
  return {
    slot: slotOf(about),
    kind: kindNames[kindOf(about)] ?? "own",
    key: keyWordsAt(shard, line),
    isAddress: isAddressKey(about),
    entries,
  };
}
