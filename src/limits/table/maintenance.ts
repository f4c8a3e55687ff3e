// What the thread that owns the table does for it: removes what has expired, copies shards for a snapshot, and repairs
// what a thread was changing when it ended. It never waits for a lock, because it has to notice threads that end.
import { CounterKey } from "../../core/counter-key.ts";
import { Cursor } from "./cursor.ts";
import { addKey, findKey, freeEntry } from "./directory.ts";
import type { EvictingParts } from "./eviction.ts";
import { addPair, eachPair } from "./key-log.ts";
import {
  bucketAt,
  bucketEntries,
  bytesPerWord,
  figureAt,
  figures,
  firstDataLine,
  header,
  kinds,
  lineAt,
  lineOfEntry,
  lineWords,
  shardAt,
  shardHeader,
  slots,
} from "./layout.ts";
import { freeLines, takeLine } from "./lines.ts";
import { removeUnits } from "./pair-removal.ts";
import type { CounterRecord } from "./records.ts";
import { repairShard } from "./repair.ts";

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
}

/** Keys and buckets that one portion looks at: well below a millisecond. */
const keysInPortion = 512;
const bucketsInPortion = 1024;
/** Lines that are searched at a time for units of threads that are gone: in a few milliseconds. */
const linesInPortion = 32_768;

export class Maintenance {
  readonly #parts: EvictingParts;
  #shard = 0;
  #bucket = 0;
  /** Shards that may have units of a thread that is gone, with the thread. */
  #unsearched: { readonly index: number; readonly thread: number }[] = [];

  constructor(parts: EvictingParts) {
    this.#parts = parts;
  }

  get shardCount(): number {
    return this.#parts.geometry.shards;
  }

  /** Removes what has expired, in one portion of the table. Returns whether that was its last portion. */
  sweep(nowMs: number): boolean {
    const { w, geometry, rules } = this.#parts;
    rules.setNow(nowMs);
    this.#giveBack();
    const isLocked = this.#withShard(this.#shard, (shard) => {
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
    const { w, geometry } = this.#parts;
    let copy: Int32Array | null = null;
    this.#withShard(index, (shard) => {
      copy = w.slice(shard, shard + geometry.shardWords);
    });
    return copy;
  }

  /** Adds a key of a snapshot. Returns false if there is no room, or the key is stored already. Before traffic. */
  restore({ slot, kind, key: [a, b, c, d], isAddress, entries }: CounterRecord): boolean {
    const { w, places, addTo } = this.#parts;
    const cursor = new Cursor();
    cursor.slot = slot;
    places.point(cursor, kinds[kind], new CounterKey(a, b, c, d, isAddress));
    const entryAt = freeEntry(w, cursor);
    if (entryAt === 0 || freeLines(w, cursor.shard) === 0 || findKey(w, cursor) !== 0) return false;
    const line = addKey(w, cursor, takeLine(w, cursor.shard, cursor.homeLine), entryAt);
    for (const [at, units] of entries) addPair(w, cursor.shard, line, at | 0, units);
    addTo(figureAt(slot, kind === "own" ? figures.keys : figures.coarse), 1);
    if (kind !== "own") addTo(header.coarseKeys, 1);
    return true;
  }

  /**
   * Repairs what a thread has left, frees its locks, and gives back what it held under `concurrency`. The thread must be
   * gone.
   */
  recover(thread: number): void {
    const { w, geometry, locks } = this.#parts;
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
    const { w, geometry } = this.#parts;
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
          coarse: Math.max(0, of(figures.coarse)),
        };
      }),
    };
  }

  /** Returns the keys that were looked at. */
  #sweepBucket(shard: number): number {
    const { w, rules, eviction } = this.#parts;
    const begin = bucketAt(shard, this.#bucket) + 1;
    let keys = 0;
    for (let at = begin; at < begin + bucketEntries && w[at] !== 0; ) {
      keys += 1;
      // The last key of the bucket takes the place of one that is removed.
      if (rules.worth(shard, lineAt(shard, lineOfEntry(w[at] as number))) === 0) eviction.remove(shard, at);
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
      lines += this.#parts.geometry.shardLines;
      return !this.#withShard(index, (shard) => this.#giveBackOf(shard, thread));
    });
  }

  #giveBackOf(shard: number, thread: number): void {
    const { w, geometry, rules, eviction } = this.#parts;
    for (let bucket = 0; bucket < geometry.buckets; bucket += 1) {
      const begin = bucketAt(shard, bucket) + 1;
      for (let at = begin; at < begin + bucketEntries && w[at] !== 0; ) {
        const line = lineAt(shard, lineOfEntry(w[at] as number));
        // Nobody knows which thread holds them. Units that nobody gives back must not count as held, so all count as kept.
        if (rules.isHeld(line)) {
          eviction.forget(shard, at);
          continue;
        }
        if (rules.isConcurrency(line)) this.#giveBackIn(shard, line, thread);
        at += 1;
      }
    }
  }

  /** Removes the pairs of a thread, and those that stand twice because that thread was moving them when it ended. */
  #giveBackIn(shard: number, line: number, thread: number): void {
    const { w } = this.#parts;
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

  /** Returns false if the shard is busy. */
  #withShard(index: number, use: (shard: number) => void): boolean {
    const { geometry, locks } = this.#parts;
    const shard = shardAt(index, geometry);
    const lockAt = shardAt(Math.min(index, geometry.ownShards), geometry) + shardHeader.lock;
    if (!locks.tryAcquire(lockAt)) return false;
    use(shard);
    locks.free(lockAt);
    return true;
  }
}
