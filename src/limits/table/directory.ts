// The directory of a shard: finds the line of a key, adds keys and removes them. A key stands in its first bucket, or,
// if that was full, in its second. The first bucket then says so, so that most keys that are not stored cost one look.
import type { Cursor } from "./cursor.ts";
import {
  bucketAt,
  bucketEntries,
  entryOf,
  fingerprintOf,
  firstBucketOf,
  identityMask,
  keyLine,
  lineAt,
  lineOfEntry,
  lineWords,
  shardHeader,
  withFirstBucket,
} from "./layout.ts";
import { freeLine } from "./lines.ts";

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

/**
 * Compares all entries before it looks at one: which of them fits cannot be predicted, and a wrong guess costs more.
 */
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
export function addKey(w: Int32Array, cursor: Cursor, lineNumber: number, entryAt: number): number {
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
  return line;
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
