// Makes a shard sound again after a thread has ended while it was changing it. Every change shows by the store of one
// word, so the directory leads to nothing but whole keys; what is calculated from them may be wrong: which lines are
// free, the sums of units, the keys that are in their second bucket.

import { eachPair } from "./key-log.ts";
import {
  blockOfRef,
  blockPairAt,
  bucketAt,
  bucketEntries,
  firstBucketOf,
  firstDataLine,
  type Geometry,
  indexOfRef,
  keyLine,
  lineAt,
  lineOfEntry,
  nextBlock,
  shardHeader,
} from "./layout.ts";
import { clearLines, useLine } from "./lines.ts";

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
