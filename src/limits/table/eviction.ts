// Chooses the key that makes room for a new one. Of a few keys of its buckets, one that has expired goes first, then the
// one whose going gives back the least: the fewest units, of equals the one that has been idle longest. An exhausted key
// is not forgotten: if all are, more are looked at.
import { CounterKey, type FourWords } from "../../core/counter-key.ts";
import { addKey, Cursor, findKey, freeEntry, freeLines, Locator, removeKey, takeLine } from "./directory.ts";
import {
  addPair,
  addressAt,
  freePairs,
  joinNewest,
  keep,
  newestPairAt,
  type Pair,
  pairsOf,
  RulesBySlot,
} from "./key-log.ts";
import {
  bucketAt,
  bucketEntries,
  figureAt,
  figures,
  type Geometry,
  geometryOf,
  header,
  isOwnAddress,
  keyLine,
  kindOf,
  kinds,
  Locks,
  lineAt,
  lineOfEntry,
  shardAt,
  shardHeader,
  slotOf,
  withExhausted,
} from "./layout.ts";

/** Keys that are looked at if one of them may go. */
const looked = 5;
/** Other buckets that are searched for a line, where the buckets of the key have room. */
const otherBuckets = 8;

export class Eviction {
  readonly #memory: TableMemory;
  readonly #w: Int32Array;
  readonly #rules: RulesBySlot;
  /** The entry of the best key so far. */
  #entryAt = 0;
  #worth = keep;
  #idleTime = 0;
  /** Of the first keys that are looked at, as they are stored. */
  readonly #units = new Int32Array(looked + 1);

  constructor(memory: TableMemory) {
    this.#memory = memory;
    this.#w = memory.w;
    this.#rules = memory.rules;
  }

  /**
   * Returns the word of the entry of a key that may go, 0 if there is none. `anyBucket`: whether it may be outside of the
   * buckets of the key.
   */
  choose(cursor: Cursor, anyBucket: boolean): number {
    this.#search(cursor, anyBucket);
    const entryAt = this.#entryAt;
    if (entryAt === 0 || this.#worth === 0) return entryAt;
    // Only the key that would go is compared with its own limit, because finding that limit takes longer.
    const isKept = this.#rules.isExhausted(lineAt(cursor.shard, lineOfEntry(this.#w[entryAt] as number)));
    return isKept ? this.choose(cursor, anyBucket) : entryAt;
  }

  #search(cursor: Cursor, anyBucket: boolean): void {
    const { shard, firstBucket, secondBucket } = cursor;
    this.#entryAt = 0;
    this.#worth = keep;
    const hand = this.#nextHand(shard);
    this.#look(shard, firstBucket, hand);
    if (this.#entryAt === 0) this.#look(shard, secondBucket, hand);
    if (!anyBucket) return;
    for (let i = 1; i <= otherBuckets && this.#entryAt === 0; i += 1) {
      this.#look(shard, (secondBucket + i + hand * otherBuckets) % this.#memory.geometry.buckets, hand);
    }
  }

  /** Removes the key of an entry. */
  remove(shard: number, entryAt: number): void {
    const w = this.#w;
    const line = lineAt(shard, lineOfEntry(w[entryAt] as number));
    const isLive = this.#rules.worth(shard, line) > 0;
    const slot = slotOf(w[line + keyLine.about] as number);
    this.#memory.addTo(figureAt(slot, isLive ? figures.evictedLive : figures.evictedExpired), 1);
    this.forget(shard, entryAt);
  }

  /** The same without counting it as evicted. */
  forget(shard: number, entryAt: number): void {
    const w = this.#w;
    const line = lineAt(shard, lineOfEntry(w[entryAt] as number));
    const about = w[line + keyLine.about] as number;
    const isOwn = kindOf(about) === kinds.own;
    this.#memory.addTo(figureAt(slotOf(about), isOwn ? figures.keys : figures.coarse), -1);
    removeKey(w, shard, entryAt);
    freePairs(w, shard, line);
    // While there are coarse keys, this must not be 0.
    if (!isOwn) this.#memory.addTo(header.coarseKeys, -1);
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
      if (w[at] === 0) continue;
      seen += 1;
      this.#compare(shard, at, units[i]);
    }
  }

  /** Takes the key of an entry for the best if it is better. `units`: as they are stored. */
  #compare(shard: number, at: number, units: number | undefined): void {
    const line = lineAt(shard, lineOfEntry(this.#w[at] as number));
    const worth = this.#rules.worth(shard, line, units);
    if (worth === keep || worth > this.#worth) return;
    const idleTime = worth === 0 ? 0 : this.#rules.idleTime(shard, line);
    if (worth === this.#worth && idleTime <= this.#idleTime) return;
    this.#entryAt = at;
    this.#worth = worth;
    this.#idleTime = idleTime;
  }
}

// The coarse keys: a client in place of its keys, or a network in place of its clients, in shards of their own. They are
// used when a shard is full of keys that must not be forgotten. A network that holds more than its share is counted as
// one; if none does, the network of the new key is. All coarse shards have one lock, the last in the order.

/** Keys of the buckets whose networks are looked at. */
const candidates = 8;
/** The pairs that a network takes over from a key; with more, neighbours become one. */
const maxPairs = 64;

export class CoarseKeys {
  readonly #memory: TableMemory;
  readonly #eviction: Eviction;
  readonly #network = new Cursor();
  readonly #lockAt: number;

  constructor(memory: TableMemory, eviction: Eviction) {
    this.#memory = memory;
    this.#eviction = eviction;
    this.#lockAt = coarseLockAt(memory.geometry);
  }

  /**
   * Points the cursor to the key of its client or of the client's network. `adds`: whether one is added if there is none. Returns
   * whether there is one.
   */
  find(cursor: Cursor, adds = false): boolean {
    const { locks, places } = this.#memory;
    locks.acquireLast(this.#lockAt);
    if (cursor.key !== cursor.client) {
      places.point(cursor, kinds.client, cursor.client);
      if (this.#findHere(cursor, adds)) return true;
    }
    places.point(cursor, kinds.network, networkKey(cursor.client));
    return this.#findHere(cursor, adds);
  }

  /**
   * Counts a key of a network with more than its share by its network, so that its line becomes free. Returns whether
   * the cursor's key can be added. False if its own network has more than its share.
   */
  makeRoom(cursor: Cursor): boolean {
    const { w, geometry, locks, rules } = this.#memory;
    const { shard, firstBucket } = cursor;
    if (cursor.key.isAddress && holdsTooMuch(w, shard, firstBucket, networkKey(cursor.key), geometry)) return false;
    locks.acquireLast(this.#lockAt);
    const begin = bucketAt(shard, firstBucket) + 1;
    let looked = 0;
    for (let at = begin; at < begin + bucketEntries && w[at] !== 0 && looked < candidates; at += 1) {
      const line = lineAt(shard, lineOfEntry(w[at] as number));
      if (!isOwnAddress(w[line + keyLine.about] as number) || rules.isConcurrency(line) || rules.isHeld(line)) continue;
      looked += 1;
      const network = networkKey(addressAt(w, line));
      if (!holdsTooMuch(w, shard, firstBucket, network, geometry) || !this.#absorb(shard, line, network)) continue;
      this.#eviction.forget(shard, at);
      return freeEntry(w, cursor) !== 0;
    }
    return false;
  }

  /** The same of the key that the cursor points to. */
  #findHere(cursor: Cursor, adds: boolean): boolean {
    const { w } = this.#memory;
    cursor.line = findKey(w, cursor);
    if (cursor.line !== 0 || !adds) return cursor.line !== 0;
    const { shard } = cursor;
    if (freeEntry(w, cursor) === 0 || freeLines(w, shard) === 0) {
      const victimAt = this.#eviction.choose(cursor, freeEntry(w, cursor) !== 0);
      if (victimAt === 0) return false;
      this.#eviction.remove(shard, victimAt);
    }
    this.#memory.add(cursor);
    return true;
  }

  /** Adds the units of a key to those of its network. Returns false if there is no room for the network. */
  #absorb(shard: number, line: number, network: CounterKey): boolean {
    const { w, rules, places } = this.#memory;
    const cursor = this.#network;
    cursor.slot = slotOf(w[line + keyLine.about] as number);
    places.point(cursor, kinds.network, network);
    if (!this.#findHere(cursor, true)) return false;
    // What has expired is not added.
    rules.worth(shard, line);
    rules.worth(cursor.shard, cursor.line);
    // A client with an override may have more than the limit of the policy.
    const limit = Math.max(rules.limitOf(line), w[line + keyLine.units] as number);
    for (const [instant, units] of grouped(pairsOf(w, shard, line))) {
      this.#addUnits(cursor, instant, units, limit);
    }
    // Room is made where no key may be forgotten, so the key is exhausted, and its network counts as exhausted too.
    const aboutAt = cursor.line + keyLine.about;
    w[aboutAt] = withExhausted(w[aboutAt] as number, true);
    return true;
  }

  /** Units that are older than the newest of the network count as long as those. More than the limit are not needed. */
  #addUnits({ shard, line }: Cursor, instant: number, units: number, limit: number): void {
    const { w } = this.#memory;
    const newestAt = newestPairAt(w, shard, line);
    const isLater = newestAt === 0 || ((instant - (w[newestAt] as number)) | 0) > 0;
    if (isLater && (w[line + keyLine.units] as number) < limit) {
      addPair(w, shard, line, instant, units);
      return;
    }
    const later = isLater ? instant : (w[newestAt] as number);
    joinNewest(w, shard, line, newestAt, later, Math.max(0, Math.min(units, limit - (w[newestAt + 1] as number))));
  }
}

/** The word of the lock of all coarse keys, the last in the order. */
export function coarseLockAt(geometry: Geometry): number {
  return shardAt(geometry.ownShards, geometry);
}

/** Returns at most `maxPairs`: of neighbours, the older ones join the newest. */
function grouped(pairs: readonly Pair[]): readonly Pair[] {
  const group = Math.ceil(pairs.length / maxPairs);
  if (group <= 1) return pairs;
  const groups: Pair[] = [];
  for (let i = 0; i < pairs.length; i += group) {
    const part = pairs.slice(i, i + group);
    const [instant] = part.at(-1) as Pair;
    groups.push([instant, part.reduce((sum, [, units]) => sum + units, 0)]);
  }
  return groups;
}

// Networks in the table: /24 of IPv4, /48 of IPv6. Where a key goes is random, so the keys of a few buckets show what
// part of a shard, and of the table, a network holds.

/** A network with more than one key in so many is counted as one. */
const keysPerShare = 64;
/** Keys that are looked at. */
const sample = 2 * keysPerShare;

/** The network of an address key. */
export function networkKey({ a, b, c, d }: FourWords): CounterKey {
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

/** Returns whether a network holds more than its share, judged by the keys from a bucket on. */
function holdsTooMuch(w: Int32Array, shard: number, from: number, network: CounterKey, geometry: Geometry): boolean {
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

// The memory of a table as one thread uses it.

export interface TableOptions {
  /** 16 bytes: decides where keys go. The same in all threads. */
  readonly secret: Uint8Array;
  /** The number of this thread, 1 to 255. Default: 1. */
  readonly thread?: number;
  /** Whether other threads use the table. Default: false. */
  readonly isShared?: boolean;
  /** False: where this thread would sleep for a lock, a BusyError is thrown. Default: true. */
  readonly maySleep?: boolean;
}

export class TableMemory {
  readonly thread: number;
  readonly isShared: boolean;
  readonly w: Int32Array;
  readonly geometry: Geometry;
  readonly places: Locator;
  readonly rules: RulesBySlot;
  readonly locks: Locks;

  constructor(memory: SharedArrayBuffer, { secret, thread = 1, isShared = false, maySleep = true }: TableOptions) {
    this.thread = thread;
    this.isShared = isShared;
    this.w = new Int32Array(memory);
    this.geometry = geometryOf(memory.byteLength);
    this.places = new Locator(this.geometry, secret);
    this.rules = new RulesBySlot(this.w);
    this.locks = new Locks(this.w, thread, isShared, maySleep);
  }

  /** Uses a shard with its lock. Returns false if the shard is busy. Never sleeps. */
  withShard(index: number, use: (shard: number) => void): boolean {
    const { geometry, locks } = this;
    // The coarse shards have the lock of the first one.
    const lockAt = shardAt(Math.min(index, geometry.ownShards), geometry) + shardHeader.lock;
    if (!locks.tryAcquire(lockAt)) return false;
    use(shardAt(index, geometry));
    locks.free(lockAt);
    return true;
  }

  /** Adds the key of a cursor, for which there must be room. */
  add(cursor: Cursor): void {
    const { w } = this;
    const isOwn = kindOf(cursor.identity) === kinds.own;
    // Nobody looks for coarse keys while this is 0.
    if (!isOwn) this.addTo(header.coarseKeys, 1);
    addKey(w, cursor, takeLine(w, cursor.shard, cursor.homeLine), freeEntry(w, cursor));
    this.addTo(figureAt(cursor.slot, isOwn ? figures.keys : figures.coarse), 1);
  }

  /** Adds to a word of the table header. */
  addTo(word: number, count: number): void {
    if (this.isShared) Atomics.add(this.w, word, count);
    else this.w[word] = (this.w[word] as number) + count;
  }
}
