// The memory of all counters: one SharedArrayBuffer of 32-bit words. This file says where everything stands; the other
// files of this folder read and write it by these names alone.
//
//   memory     | table header | shard 0 | shard 1 | … | coarse shards |
//   header     | coarse keys | calendar lock | calendars: period, end | forgiveness marks | figures by slot |
//   shard      | header line | directory: one line for each bucket | lines in use, by bits | lines of keys and blocks |
//
// A shard has one lock. A key belongs to one shard and to two buckets of it, by a keyed hash. The last shards hold the
// coarse keys: clients and networks that are counted in place of keys for which there was no room.
//
//   a line is 16 words (64 bytes); shards have at most 65,536 lines, so a line's number takes 16 bits
//
//   shard header   0 lock · 1 where the bits begin · 2 the last word of the bits with a free line · 3 free lines
//                  4 keys · 5 hand: where the next search for a key that may go begins
//   bucket         0 keys that are in their second bucket because this one was full
//                  1–15 entries: fingerprint << 16 | line; 0 is free, and all after it
//   key            0–3 key · 4 about (below) · 5 units that count · 6 oldest pair · 7 newest pair
//                  8–15 four pairs, as a ring: instant, units
//                  with more pairs than four, the older ones are in blocks: 6 = block << 16 | index in it,
//                  7 = block << 16 | pairs in the line << 8 | pairs in the block, 8 = the instant of the oldest,
//                  10–15 the last three pairs; otherwise 6 is 0
//   block          0–3 two pairs: instant, units · 4 next block << 16 · 6–15 five pairs
//   about          bits 0–7 slot · 8–9 kind, 0 in what is no key · 10 is an address · 11 is exhausted ·
//                  12–13 first pair of the ring · 14–16 pairs in the ring · 17–31 number of its first bucket + 1, if
//                  it is in the second
//
// A key is in the line that its hash says, if that was free, so it is found at the first look. Otherwise the directory
// says where it is; all keys are in it.
//
// An instant is a tick of a millisecond, modulo 2^32 (sliding), the number of a period (calendar), or the number of a
// thread (concurrency). Every change becomes visible by the store of one word, and until then what was there before is
// still there: a thread that ends within a change leaves at most that change undone, or units counted twice.

export const lineWords = 16;
export const bytesPerWord = 4;
const lineBytes = lineWords * bytesPerWord;
/** Entries of a bucket. */
export const bucketEntries = 15;
export const inlinePairs = 4;
export const blockPairs = 7;
/** Pairs of a line beside a chain of blocks. */
export const bufferPairs = 3;
/** They stand where the ring has this pair and those after it. */
export const bufferFirst = 1;
const maxShardLines = 16_384;
const minShards = 16;
/** Of the lines of a shard, one in so many is a bucket: two thirds of the entries are in use when all lines are. */
export const linesPerBucket = 10;
/** Of the shards, one in so many is for coarse keys. */
const shardsPerCoarse = 16;
/** The part of the lines for keys that follow from their hashes. */
const homePart = 0.6;
/** Of the lines of a shard, one in so many is left for blocks: a new key replaces another one before it takes these. */
const linesPerReserved = 8;

/** The numbers that policies have in the table. */
export const slots = 256;
/** No policy has this one: the connections of peers are counted under it. */
export const connectionSlot = slots - 1;
/** Policies have the slots below this one. */
export const policySlots = slots / 2 - 1;

/** Returns the slot under which the units are counted that requests hold of a policy with `charge`. */
export function heldSlotOf(slot: number): number {
  return policySlots + slot;
}

export function isHeldSlot(slot: number): boolean {
  return slot >= policySlots && slot < 2 * policySlots;
}

/**
 * Words of the calendar of a slot: the number of the period, its end in Unix seconds, when that is due, and when it is
 * over at the latest, in seconds of the table's time; and whether the clock was a guess by which it began.
 */
export const calendarWords = { number: 0, end: 1, due: 2, last: 3, guess: 4, words: 5 } as const;

/** Words that rise when a key is forgiven. Each key has two of them, by its hash. */
export const forgivenessMarks = 384;

const calendars = 2 * lineWords;
const marks = calendars + (policySlots + 1) * calendarWords.words;

/** Words of the table header. */
export const header = {
  coarseKeys: 0,
  calendarLock: lineWords,
  /** `calendarWords` for each slot of a policy. */
  calendars,
  forgivenessMarks: marks,
  /** `figures` for each slot. */
  figures: marks + forgivenessMarks,
} as const;

/** Words of the figures of a slot. */
export const figures = {
  keys: 0,
  evictedExpired: 1,
  evictedLive: 2,
  merged: 3,
  coarse: 4,
  forgiven: 5,
  words: 8,
} as const;

const headerLines = (header.figures + slots * figures.words) / lineWords;

/** Words of a shard's header line. */
export const shardHeader = { lock: 0, bitmap: 1, top: 2, free: 3, keys: 4, hand: 5 } as const;

/** Words of a key's line. */
export const keyLine = { about: 4, units: 5, oldest: 6, newest: 7, pairs: 8 } as const;

/** Words of a block. */
const block = { next: 4, secondPart: 6 } as const;
const pairsInFirstPart = 2;

/** Of a key. */
export const kinds = { own: 1, client: 2, network: 3 } as const;

const coarseNames = [null, null, "client", "network"] as const;

/** The name of the kind of a coarse key; null for one that is counted by itself. */
export function coarseNameOf(kind: number): "client" | "network" | null {
  return coarseNames[kind] ?? null;
}

/** The bits of `about` that belong to the identity of a key: slot, kind, whether it is an address. */
export const identityMask = 0x7ff;
const exhaustedBit = 1 << 11;
const firstShift = 12;
const pairsShift = 14;
const ringMask = 0x1f << firstShift;
const firstBucketShift = 17;

export interface Geometry {
  readonly shards: number;
  /** Shards before the coarse ones. */
  readonly ownShards: number;
  readonly shardWords: number;
  readonly shardLines: number;
  readonly buckets: number;
  /** Lines that are left for blocks. */
  readonly reserved: number;
  /** Lines that follow from the hash of a key. */
  readonly homeLines: number;
}

export const minTableBytes = 1024 * 1024;

/** `bytes`: of the whole table, `minTableBytes` to 4 GiB. */
export function geometryOf(bytes: number): Geometry {
  const lines = Math.floor(bytes / lineBytes) - headerLines;
  const shards = Math.max(minShards, Math.ceil(lines / maxShardLines));
  const shardLines = Math.floor(lines / shards);
  const buckets = Math.floor(shardLines / linesPerBucket);
  return {
    shards,
    ownShards: shards - Math.max(1, Math.floor(shards / shardsPerCoarse)),
    shardWords: shardLines * lineWords,
    shardLines,
    buckets,
    reserved: Math.floor(shardLines / linesPerReserved),
    homeLines: Math.floor((shardLines - buckets) * homePart),
  };
}

/** Returns the word at which a shard begins. */
export function shardAt(index: number, { shardWords }: Geometry): number {
  return headerLines * lineWords + index * shardWords;
}

/** Returns the slot of the policy of which a slot counts all units, or those that are held. */
export function policySlotOf(slot: number): number {
  return isHeldSlot(slot) ? slot - policySlots : slot;
}

/** Returns the word at which the calendar of a slot begins. What is held has that of its policy. */
export function calendarAt(slot: number): number {
  return header.calendars + policySlotOf(slot) * calendarWords.words;
}

/** Returns the word of a figure of a slot. */
export function figureAt(slot: number, figure: number): number {
  return header.figures + slot * figures.words + figure;
}

/** The first line of a shard that holds a key or a block. */
export function firstDataLine(geometry: Geometry): number {
  return bitmapLine(geometry) + Math.ceil(geometry.shardLines / (32 * lineWords));
}

export function bitmapLine({ buckets }: Geometry): number {
  return 1 + buckets;
}

export function bucketAt(shard: number, bucket: number): number {
  return shard + (1 + bucket) * lineWords;
}

export function lineAt(shard: number, line: number): number {
  return shard + line * lineWords;
}

/** The words of the key that a line holds. */
export function keyWordsAt(w: Int32Array, line: number): [number, number, number, number] {
  return [w[line] as number, w[line + 1] as number, w[line + 2] as number, w[line + 3] as number];
}

export function lineOfEntry(entry: number): number {
  return entry & 0xffff;
}

export function fingerprintOf(entry: number): number {
  return entry >>> 16;
}

export function entryOf(fingerprint: number, line: number): number {
  return (fingerprint << 16) | line;
}

export function identityOf(slot: number, kind: number, isAddress: boolean): number {
  return slot | (kind << 8) | (isAddress ? 0x400 : 0);
}

export function slotOf(about: number): number {
  return about & 0xff;
}

export function kindOf(about: number): number {
  return (about >>> 8) & 3;
}

export function isAddressKey(about: number): boolean {
  return (about & 0x400) !== 0;
}

/** Returns whether it is the address of a client that is counted by itself. */
export function isOwnAddress(about: number): boolean {
  return isAddressKey(about) && kindOf(about) === kinds.own;
}

export function isMarkedExhausted(about: number): boolean {
  return (about & exhaustedBit) !== 0;
}

export function withExhausted(about: number, isExhausted: boolean): number {
  return isExhausted ? about | exhaustedBit : about & ~exhaustedBit;
}

/** The index of the oldest pair of the ring. */
export function ringFirst(about: number): number {
  return (about >>> firstShift) & 3;
}

export function ringPairs(about: number): number {
  return (about >>> pairsShift) & 7;
}

export function withRing(about: number, first: number, pairs: number): number {
  return (about & ~ringMask) | (first << firstShift) | (pairs << pairsShift);
}

/** Returns the first bucket of a key that is in its second; -1 if it is in its first. */
export function firstBucketOf(about: number): number {
  return (about >>> firstBucketShift) - 1;
}

export function withFirstBucket(about: number, bucket: number): number {
  return (about & ((1 << firstBucketShift) - 1)) | ((bucket + 1) << firstBucketShift);
}

/** The word of a pair of the ring. `index`: from the oldest. */
export function ringPairAt(line: number, first: number, index: number): number {
  return line + keyLine.pairs + 2 * ((first + index) & 3);
}

export function blockPairAt(shard: number, blockLine: number, index: number): number {
  const at = lineAt(shard, blockLine);
  return index < pairsInFirstPart ? at + 2 * index : at + block.secondPart + 2 * (index - pairsInFirstPart);
}

export function nextBlock(w: Int32Array, shard: number, blockLine: number): number {
  return (w[lineAt(shard, blockLine) + block.next] as number) >>> 16;
}

export function setNextBlock(w: Int32Array, shard: number, blockLine: number, next: number): void {
  w[lineAt(shard, blockLine) + block.next] = next << 16;
}

export function blockOfRef(ref: number): number {
  return ref >>> 16;
}

/** The index of the oldest pair in its block. */
export function indexOfRef(oldest: number): number {
  return oldest & 0xff;
}

export function pairsInBlock(newest: number): number {
  return newest & 0xff;
}

export function pairsInBuffer(newest: number): number {
  return (newest >>> 8) & 0xff;
}

export function oldestRef(blockLine: number, index: number): number {
  return (blockLine << 16) | index;
}

export function newestRef(blockLine: number, inBuffer: number, inBlock: number): number {
  return (blockLine << 16) | (inBuffer << 8) | inBlock;
}

/** Set while threads may sleep for the lock. */
const waitingBit = 0x100;
const threadMask = 0xff;
/** About a microsecond: as long as an update takes. */
const attempts = 40;
/** In milliseconds. Nothing depends on it: it bounds the harm if a wake-up should be lost. */
const longestSleepMs = 20;
/** Policies that are asked together, and the lock of the coarse keys. A question about many quotas may need more. */
const usuallyHeld = 64;

/** Thrown in a thread that must not sleep for a lock, if one is not free soon. Nothing has changed. */
export class BusyError extends Error {}

/**
 * The locks of a table: one word each, which holds the number of the thread that has it; 0 is free. With one thread
 * there is nothing to lock. A thread that finds a lock taken tries for as long as an ordinary update takes, then
 * sleeps. A thread that frees a lock wakes another one only if one sleeps. A lock is never taken over by time, because
 * its owner may only be descheduled: when a thread has ended, the main thread repairs what it was changing, and frees
 * its locks.
 */
export class Locks {
  readonly #w: Int32Array;
  readonly #thread: number;
  readonly #isShared: boolean;
  readonly #maySleep: boolean;
  /** The words of the locks that are wanted or held, in ascending order: all threads take them in this order. */
  #held = new Int32Array(usuallyHeld);
  #count = 0;

  /** `thread`: 1 to 255. `maySleep`: false for a thread that has to notice those that end, and free their locks. */
  constructor(w: Int32Array, thread: number, isShared: boolean, maySleep = true) {
    this.#w = w;
    this.#thread = thread;
    this.#isShared = isShared;
    this.#maySleep = maySleep;
  }

  /** Adds a lock to those that `acquire` takes. `at`: its word. */
  want(at: number): void {
    if (!this.#isShared) return;
    let i = this.#count;
    while (i > 0 && (this.#held[i - 1] as number) > at) i -= 1;
    if (i > 0 && this.#held[i - 1] === at) return;
    if (this.#count + 1 >= this.#held.length) this.#held = grown(this.#held);
    this.#held.copyWithin(i + 1, i, this.#count);
    this.#held[i] = at;
    this.#count += 1;
  }

  /** Takes all locks that are wanted. Throws a BusyError, with none of them taken, if this thread must not sleep. */
  acquire(): void {
    let taken = 0;
    try {
      for (; taken < this.#count; taken += 1) this.#take(this.#held[taken] as number);
    } finally {
      if (taken < this.#count) {
        this.#count = taken;
        this.release();
      }
    }
  }

  /** Takes one more lock, unless it is held. It must come after all others in the order. */
  acquireLast(at: number): void {
    if (!this.#isShared || (this.#count > 0 && this.#held[this.#count - 1] === at)) return;
    this.#take(at);
    this.#held[this.#count] = at;
    this.#count += 1;
  }

  /** Frees all locks. */
  release(): void {
    for (let i = this.#count - 1; i >= 0; i -= 1) this.free(this.#held[i] as number);
    this.#count = 0;
  }

  /** Does something while all locks that are wanted are held. */
  within<T>(run: () => T): T {
    this.acquire();
    try {
      return run();
    } finally {
      this.release();
    }
  }

  /** Takes a lock that is not among the others. A thread that has it must take no other one. */
  takeAlone(at: number): void {
    if (this.#isShared) this.#take(at);
  }

  /** Takes a lock if it is free soon. Never sleeps, as is right for the main thread. */
  tryAcquire(at: number): boolean {
    if (!this.#isShared) return true;
    for (let i = 0; i < attempts; i += 1) {
      if (Atomics.compareExchange(this.#w, at, 0, this.#thread) === 0) return true;
      Atomics.pause();
    }
    return false;
  }

  /** Frees a lock, also that of another thread. */
  free(at: number): void {
    if (!this.#isShared) return;
    if ((Atomics.exchange(this.#w, at, 0) & waitingBit) !== 0) Atomics.notify(this.#w, at, 1);
  }

  isHeldBy(at: number, thread: number): boolean {
    return (Atomics.load(this.#w, at) & threadMask) === thread;
  }

  #take(at: number): void {
    const w = this.#w;
    if (Atomics.compareExchange(w, at, 0, this.#thread) === 0) return;
    for (let i = 0; i < attempts; i += 1) {
      Atomics.pause();
      if (Atomics.load(w, at) === 0 && Atomics.compareExchange(w, at, 0, this.#thread) === 0) return;
    }
    if (!this.#maySleep) throw new BusyError("a lock of the table of counters is not free");
    // From here on it is taken with the bit, because others may sleep too.
    for (;;) {
      const owner = Atomics.compareExchange(w, at, 0, this.#thread | waitingBit);
      if (owner === 0) return;
      if (Atomics.compareExchange(w, at, owner, owner | waitingBit) === owner) {
        Atomics.wait(w, at, owner | waitingBit, longestSleepMs);
      }
    }
  }
}

/** How long to wait for a thread that has a lock: one that has ended is noticed in less. */
const maxBusyMs = 10_000;
const busyRetryMs = 2;

/** Runs something that may throw a BusyError, and again until it does not. */
export async function whenFree<T>(run: () => T): Promise<T> {
  for (let waitedMs = 0; ; waitedMs += busyRetryMs) {
    try {
      return run();
    } catch (error) {
      if (!(error instanceof BusyError) || waitedMs >= maxBusyMs) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, busyRetryMs));
  }
}

function grown(list: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * list.length);
  larger.set(list);
  return larger;
}
