// The directory of a shard: finds the line of a key, adds keys and removes them. A key stands in its first bucket, or,
// if that was full, in its second. The first bucket then says so, so that most keys that are not stored cost one look.

import { CounterKey, type FourWords } from "../../core/counter-key.ts";
import {
  bitmapLine,
  bucketAt,
  bucketEntries,
  entryOf,
  fingerprintOf,
  firstBucketOf,
  firstDataLine,
  type Geometry,
  identityMask,
  identityOf,
  keyLine,
  kinds,
  lineAt,
  lineOfEntry,
  lineWords,
  shardAt,
  shardHeader,
  slots,
  withFirstBucket,
} from "./layout.ts";
import { KeyPlacer } from "./sip-hash.ts";

/** Returns the word of the key's line; 0 if it is not stored. */
export function findKey(w: Int32Array, cursor: Cursor): number {
  const { shard } = cursor;
  const home = lineAt(shard, cursor.homeLine);
  if (isKeyAt(w, home, cursor)) return home;
  const first = bucketAt(shard, cursor.firstBucket);
  const line = findIn(w, first, cursor);
  if (line !== 0 || w[first] === 0) return line;
  return findIn(w, bucketAt(shard, cursor.secondBucket), cursor);
}

/** Compares all entries before it looks at one: which of them fits cannot be predicted, and a wrong guess costs more. */
function findIn(w: Int32Array, bucket: number, cursor: Cursor): number {
  const { fingerprint, shard } = cursor;
  let fitting = 0;
  for (let i = 1; i <= bucketEntries; i += 1) {
    fitting |= Number(fingerprintOf(w[bucket + i] as number) === fingerprint) << i;
  }
  for (; fitting !== 0; fitting &= fitting - 1) {
    const i = 31 - Math.clz32(fitting & -fitting);
    const line = lineAt(shard, lineOfEntry(w[bucket + i] as number));
    if (isKeyAt(w, line, cursor)) return line;
  }
  return 0;
}

export function isKeyAt(w: Int32Array, line: number, { a, b, c, d, identity }: Cursor): boolean {
  return (
    w[line] === a &&
    w[line + 1] === b &&
    w[line + 2] === c &&
    w[line + 3] === d &&
    ((w[line + keyLine.about] as number) & identityMask) === identity
  );
}

/** Returns the word of the first free entry of a key's buckets; 0 if both are full. */
export function freeEntry(w: Int32Array, cursor: Cursor): number {
  return (
    freeIn(w, bucketAt(cursor.shard, cursor.firstBucket)) || freeIn(w, bucketAt(cursor.shard, cursor.secondBucket))
  );
}

function freeIn(w: Int32Array, bucket: number): number {
  for (let at = bucket + 1; at <= bucket + bucketEntries; at += 1) if (w[at] === 0) return at;
  return 0;
}

/** Makes a line the key of the cursor, without units, and adds it. `entryAt`: a free entry of its buckets. */
export function addKey(w: Int32Array, cursor: Cursor, lineNumber: number, entryAt: number): void {
  const { shard } = cursor;
  const line = lineAt(shard, lineNumber);
  const first = bucketAt(shard, cursor.firstBucket);
  const isAway = entryAt > first + bucketEntries || entryAt < first;
  w[line] = cursor.a;
  w[line + 1] = cursor.b;
  w[line + 2] = cursor.c;
  w[line + 3] = cursor.d;
  w[line + keyLine.units] = 0;
  w[line + keyLine.oldest] = 0;
  w[line + keyLine.newest] = 0;
  w[line + keyLine.about] = withFirstBucket(cursor.identity, isAway ? cursor.firstBucket : -1);
  if (isAway) w[first] = (w[first] as number) + 1;
  w[entryAt] = entryOf(cursor.fingerprint, lineNumber);
  w[shard + shardHeader.keys] = (w[shard + shardHeader.keys] as number) + 1;
  cursor.line = line;
}

/**
 * Removes the key of an entry, and frees its line. What its pairs take beside that is freed afterwards: a key that is
 * stored without its pairs would be a client who may spend its limit again.
 */
export function removeKey(w: Int32Array, shard: number, entryAt: number): void {
  const entry = w[entryAt] as number;
  const lineNumber = lineOfEntry(entry);
  const firstBucket = firstBucketOf(w[lineAt(shard, lineNumber) + keyLine.about] as number);
  // The last entry of the bucket fills the gap.
  const end = entryAt - ((entryAt - shard) % lineWords) + bucketEntries;
  let last = entryAt;
  while (last < end && w[last + 1] !== 0) last += 1;
  w[entryAt] = w[last] as number;
  w[last] = 0;
  if (firstBucket >= 0) {
    const first = bucketAt(shard, firstBucket);
    w[first] = (w[first] as number) - 1;
  }
  freeLine(w, shard, lineNumber);
  w[shard + shardHeader.keys] = (w[shard + shardHeader.keys] as number) - 1;
}

/** Returns the word of the entry of a line that is stored; 0 if it is not in the buckets of the cursor. */
export function entryOfLine(w: Int32Array, cursor: Cursor): number {
  const lineNumber = (cursor.line - cursor.shard) / lineWords;
  for (const bucket of [cursor.firstBucket, cursor.secondBucket]) {
    const begin = bucketAt(cursor.shard, bucket) + 1;
    for (let at = begin; at < begin + bucketEntries; at += 1) {
      if (w[at] !== 0 && lineOfEntry(w[at] as number) === lineNumber) return at;
    }
  }
  return 0;
}

// Where a key is, or would be, in the table. Used again for each request, because an object for each would cost more.

const noKey = new CounterKey(0, 0, 0, 0, false);

export class Cursor {
  slot = 0;
  /** The key that was asked for, and the client that is counted if there is no room for it. */
  key = noKey;
  client = noKey;
  /** The word at which the shard begins. The fields from here on may be about the client or its network instead. */
  shard = 0;
  firstBucket = 0;
  secondBucket = 0;
  fingerprint = 0;
  /** The number of the line that follows from the hash. */
  homeLine = 0;
  /** Slot, kind and whether it is an address, as in `about`. */
  identity = 0;
  a = 0;
  b = 0;
  c = 0;
  d = 0;
  /** The word of the key's line; 0 if it is not stored. */
  line = 0;
  /** The entry of the key that goes if this one is added; 0 if none has to. */
  victimAt = 0;
  victimEntry = 0;

  setKey({ a, b, c, d }: FourWords): void {
    this.a = a;
    this.b = b;
    this.c = c;
    this.d = d;
  }
}

// Says where a key is in the table, by a hash with a secret key: nobody outside can find keys that meet in one bucket.
// A client's hash is calculated once; each policy mixes it with two words of its own.

export class Locator {
  readonly #geometry: Geometry;
  readonly #firstLine: number;
  readonly #placer: KeyPlacer;
  /** Two words for each slot. */
  readonly #salts = new Int32Array(2 * slots);

  /** `secret`: 16 bytes. */
  constructor(geometry: Geometry, secret: Uint8Array) {
    this.#geometry = geometry;
    this.#firstLine = firstDataLine(geometry);
    this.#placer = new KeyPlacer(secret);
    for (let slot = 0; slot < slots; slot += 1) {
      const salt = new CounterKey(0, 0, 1, slot, true);
      this.#placer.place(salt);
      this.#salts[2 * slot] = salt.place;
      this.#salts[2 * slot + 1] = salt.tag;
    }
  }

  /** Points a cursor to where a key of its slot is, or would be. `kind`: other than `own`, among the coarse keys. */
  point(cursor: Cursor, kind: number, key: CounterKey): void {
    if (!key.isPlaced) this.#placer.place(key);
    const { slot } = cursor;
    const place = key.place ^ (this.#salts[2 * slot] as number);
    const tag = key.tag ^ (this.#salts[2 * slot + 1] as number);
    const { shards, ownShards, buckets, homeLines } = this.#geometry;
    const index =
      kind === kinds.own ? part(place >>> 16, ownShards) : ownShards + part(place >>> 16, shards - ownShards);
    cursor.shard = shardAt(index, this.#geometry);
    // A free entry has none.
    cursor.fingerprint = place & 0xffff || 1;
    cursor.firstBucket = part(tag >>> 16, buckets);
    cursor.secondBucket = part(tag & 0xffff, buckets);
    // Bits of both words, because each is used on its own above.
    cursor.homeLine = this.#firstLine + part((Math.imul(place, 0x9e3779b1) ^ tag) >>> 16, homeLines);
    cursor.identity = identityOf(slot, kind, key.isAddress);
    cursor.setKey(key);
    cursor.line = 0;
    cursor.victimAt = 0;
  }
}

/** Spreads 16 bits over `count` places. */
function part(bits: number, count: number): number {
  return (bits * count) >>> 16;
}

// The lines of a shard that are in use, as a bitmap. A key gets a line that follows from its hash, so that it is usually
// found at the first look. Blocks and keys whose own line is taken get one from the end of the shard, where the lines of
// no hash are.

const bitsPerWord = 32;

/** Makes the bitmap of an empty shard: what is no line for keys and blocks is in use. */
export function formatShard(w: Int32Array, shard: number, geometry: Geometry): void {
  const bitmap = bitmapLine(geometry) * lineWords;
  w[shard + shardHeader.bitmap] = bitmap;
  clearLines(w, shard, geometry);
}

/** Makes all lines for keys and blocks free. */
export function clearLines(w: Int32Array, shard: number, geometry: Geometry): void {
  const bitmap = shard + (w[shard + shardHeader.bitmap] as number);
  const words = Math.ceil(geometry.shardLines / bitsPerWord);
  const top = words - 1;
  const first = firstDataLine(geometry);
  w.fill(0, bitmap, bitmap + words);
  for (let word = 0; word * bitsPerWord < first; word += 1) w[bitmap + word] = lowBits(first - word * bitsPerWord);
  w[bitmap + top] = (w[bitmap + top] as number) | ~lowBits(geometry.shardLines - top * bitsPerWord);
  w[shard + shardHeader.top] = top;
  w[shard + shardHeader.free] = geometry.shardLines - first;
}

export function freeLines(w: Int32Array, shard: number): number {
  return w[shard + shardHeader.free] as number;
}

/** Returns the number of a line that nobody uses, `wanted` if that is free; 0 if there is none. */
export function takeLine(w: Int32Array, shard: number, wanted = 0): number {
  if (freeLines(w, shard) === 0) return 0;
  if (wanted !== 0 && isFree(w, shard, wanted)) {
    useLine(w, shard, wanted);
    return wanted;
  }
  const bitmap = shard + (w[shard + shardHeader.bitmap] as number);
  let word = w[shard + shardHeader.top] as number;
  while (w[bitmap + word] === -1) word -= 1;
  w[shard + shardHeader.top] = word;
  const line = word * bitsPerWord + 31 - Math.clz32(~(w[bitmap + word] as number));
  useLine(w, shard, line);
  return line;
}

export function isFree(w: Int32Array, shard: number, line: number): boolean {
  const bitmap = shard + (w[shard + shardHeader.bitmap] as number);
  return (((w[bitmap + (line >>> 5)] as number) >>> (line & 31)) & 1) === 0;
}

export function useLine(w: Int32Array, shard: number, line: number): void {
  const at = shard + (w[shard + shardHeader.bitmap] as number) + (line >>> 5);
  w[at] = (w[at] as number) | (1 << (line & 31));
  w[shard + shardHeader.free] = freeLines(w, shard) - 1;
}

export function freeLine(w: Int32Array, shard: number, line: number): void {
  // No key is found in it any more.
  w[lineAt(shard, line) + keyLine.about] = 0;
  const word = line >>> 5;
  const at = shard + (w[shard + shardHeader.bitmap] as number) + word;
  w[at] = (w[at] as number) & ~(1 << (line & 31));
  w[shard + shardHeader.free] = freeLines(w, shard) + 1;
  if (word > (w[shard + shardHeader.top] as number)) w[shard + shardHeader.top] = word;
}

/** Returns a word whose lowest bits are set. `count`: negative counts as 0, more than 32 as 32. */
function lowBits(count: number): number {
  if (count <= 0) return 0;
  return count >= bitsPerWord ? -1 : (1 << count) - 1;
}
