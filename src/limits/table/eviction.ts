// Chooses the key that makes room for a new one. Of a few keys of its buckets, one that has expired goes first, then the
// one whose going gives back the least: the fewest units, of equals the one that has been idle longest. An exhausted key
// is not forgotten: if all are, more are looked at.
import type { Cursor } from "./cursor.ts";
import { removeKey } from "./directory.ts";
import {
  bucketAt,
  bucketEntries,
  figureAt,
  figures,
  type Geometry,
  header,
  keyLine,
  kindOf,
  kinds,
  lineAt,
  lineOfEntry,
  shardHeader,
  slotOf,
} from "./layout.ts";
import type { Locks } from "./locks.ts";
import { freePairs } from "./pair-removal.ts";
import type { Places } from "./places.ts";
import { keep, type RulesBySlot } from "./slot-rules.ts";

/** Keys that are looked at if one of them may go. */
const looked = 5;
/** Other buckets that are searched for a line, where the buckets of the key have room. */
const otherBuckets = 8;

/** What the parts of a table share. */
export interface TableParts {
  readonly w: Int32Array;
  readonly geometry: Geometry;
  readonly rules: RulesBySlot;
  /** Adds to a word of the table header. */
  readonly addTo: (word: number, count: number) => void;
}

/** The same with what is made from them. */
export interface EvictingParts extends TableParts {
  readonly places: Places;
  readonly eviction: Eviction;
  readonly locks: Locks;
}

export class Eviction {
  readonly #w: Int32Array;
  readonly #geometry: Geometry;
  readonly #rules: RulesBySlot;
  readonly #addTo: (word: number, count: number) => void;
  /** The entry of the best key so far. */
  #entryAt = 0;
  #worth = keep;
  #idleTime = 0;
  /** Of the first keys that are looked at, as they are stored. */
  readonly #units = new Int32Array(looked + 1);

  constructor({ w, geometry, rules, addTo }: TableParts) {
    this.#w = w;
    this.#geometry = geometry;
    this.#rules = rules;
    this.#addTo = addTo;
  }

  /**
   * Returns the word of the entry of a key that may go, 0 if there is none. `anyBucket`: whether it may be outside of the
   * buckets of the key.
   */
  choose(cursor: Cursor, anyBucket: boolean): number {
    const { shard, firstBucket, secondBucket } = cursor;
    this.#entryAt = 0;
    this.#worth = keep;
    const hand = this.#nextHand(shard);
    this.#look(shard, firstBucket, hand);
    if (this.#entryAt === 0) this.#look(shard, secondBucket, hand);
    if (!anyBucket) return this.#entryAt;
    for (let i = 1; i <= otherBuckets && this.#entryAt === 0; i += 1) {
      this.#look(shard, (secondBucket + i + hand * otherBuckets) % this.#geometry.buckets, hand);
    }
    return this.#entryAt;
  }

  /** Removes the key of an entry. */
  remove(shard: number, entryAt: number): void {
    const w = this.#w;
    const line = lineAt(shard, lineOfEntry(w[entryAt] as number));
    const isLive = this.#rules.worth(shard, line) > 0;
    const slot = slotOf(w[line + keyLine.about] as number);
    this.#addTo(figureAt(slot, isLive ? figures.evictedLive : figures.evictedExpired), 1);
    this.forget(shard, entryAt);
  }

  /** The same without counting it as evicted. */
  forget(shard: number, entryAt: number): void {
    const w = this.#w;
    const line = lineAt(shard, lineOfEntry(w[entryAt] as number));
    const about = w[line + keyLine.about] as number;
    const isOwn = kindOf(about) === kinds.own;
    this.#addTo(figureAt(slotOf(about), isOwn ? figures.keys : figures.coarse), -1);
    removeKey(w, shard, entryAt);
    freePairs(w, shard, line);
    // While there are coarse keys, this must not be 0.
    if (!isOwn) this.#addTo(header.coarseKeys, -1);
  }

  /** A different one for each search, so that no key of a bucket is always the first. */
  #nextHand(shard: number): number {
    const hand = ((this.#w[shard + shardHeader.hand] as number) + 1) & 0xffff;
    this.#w[shard + shardHeader.hand] = hand;
    return hand;
  }

  /** Looks at some keys of a bucket, and at the others while none may go. */
  #look(shard: number, bucket: number, from: number): void {
    const w = this.#w;
    const units = this.#units;
    const begin = bucketAt(shard, bucket) + 1;
    // Read before one is judged: the processor then waits for these lines at once, not for one after the other.
    for (let i = 0; i < units.length; i += 1) {
      const line = lineAt(shard, lineOfEntry(w[begin + ((from + i) % bucketEntries)] as number));
      units[i] = w[line + keyLine.units] as number;
    }
    let seen = 0;
    for (let i = 0; i < bucketEntries && this.#worth > 0; i += 1) {
      if (seen >= looked && this.#entryAt !== 0) return;
      const at = begin + ((from + i) % bucketEntries);
      const entry = w[at] as number;
      if (entry === 0) continue;
      seen += 1;
      const line = lineAt(shard, lineOfEntry(entry));
      const worth = this.#rules.worth(shard, line, units[i]);
      if (worth === keep || worth > this.#worth) continue;
      const idleTime = worth === 0 ? 0 : this.#rules.idleTime(shard, line);
      if (worth === this.#worth && idleTime <= this.#idleTime) continue;
      this.#entryAt = at;
      this.#worth = worth;
      this.#idleTime = idleTime;
    }
  }
}
