// Removes pairs of a key: what has expired, and what is given back. A pair without units is removed at once, so that a
// key never has more pairs than units.
import { copyPair, eachPair, newestPairAt, oldestInstant, oldestPairAt } from "./key-log.ts";
import {
  blockOfRef,
  blockPairAt,
  blockPairs,
  indexOfRef,
  keyLine,
  newestRef,
  nextBlock,
  oldestRef,
  pairsInBlock,
  pairsInBuffer,
  ringFirst,
  ringPairAt,
  ringPairs,
  withRing,
} from "./layout.ts";
import { freeLine } from "./lines.ts";
import { isExpired, type Span } from "./ticks.ts";

/** Removes the pairs that have expired, and returns the units that are left. */
export function countUnits(w: Int32Array, shard: number, line: number, { now, window }: Span): number {
  const units = w[line + keyLine.units] as number;
  if (units === 0) return 0;
  return isExpired(oldestInstant(w, line), now, window) ? dropExpired(w, shard, line, now, window) : units;
}

/** Removes units from a pair. Returns the units of the key that are left. */
export function removeUnits(w: Int32Array, shard: number, line: number, at: number, units: number): number {
  const removed = Math.min(units, w[at + 1] as number);
  w[at + 1] = (w[at + 1] as number) - removed;
  const left = (w[line + keyLine.units] as number) - removed;
  w[line + keyLine.units] = left;
  if (w[at + 1] !== 0) return left;
  // The oldest pair tells the reset, so it must have units.
  if (at === oldestPairAt(w, shard, line)) dropExpired(w, shard, line, 0, Number.POSITIVE_INFINITY);
  else if (at === newestPairAt(w, shard, line)) dropNewest(w, shard, line);
  else closeGap(w, shard, line, at);
  return left;
}

/** Frees what the pairs of a line take beside it, when it is no key any more. */
export function freePairs(w: Int32Array, shard: number, line: number): void {
  const oldest = w[line + keyLine.oldest] as number;
  if (oldest !== 0) freeChain(w, shard, blockOfRef(oldest), blockOfRef(w[line + keyLine.newest] as number));
}

/** Moves the pairs after one that has no units. Each is copied before its place is used: until then it counts twice. */
function closeGap(w: Int32Array, shard: number, line: number, gapAt: number): void {
  let to = 0;
  eachPair(w, shard, line, (at) => {
    if (to !== 0) copyPair(w, at, to);
    if (to !== 0 || at === gapAt) to = at;
    return true;
  });
  dropNewest(w, shard, line);
}

/** The key must have two pairs. */
function dropNewest(w: Int32Array, shard: number, line: number): void {
  const oldest = w[line + keyLine.oldest] as number;
  if (oldest === 0) {
    const about = w[line + keyLine.about] as number;
    w[line + keyLine.about] = withRing(about, ringFirst(about), ringPairs(about) - 1);
    return;
  }
  const newest = w[line + keyLine.newest] as number;
  const last = blockOfRef(newest);
  const buffered = pairsInBuffer(newest);
  const inBlock = pairsInBlock(newest);
  if (buffered > 0) w[line + keyLine.newest] = newestRef(last, buffered - 1, inBlock);
  else if (inBlock > 1) w[line + keyLine.newest] = newestRef(last, 0, inBlock - 1);
  else {
    let before = blockOfRef(oldest);
    while (nextBlock(w, shard, before) !== last) before = nextBlock(w, shard, before);
    w[line + keyLine.newest] = newestRef(before, 0, blockPairs);
    freeLine(w, shard, last);
  }
}

/** Removes the oldest pairs that have expired or have no units. Returns the units that are left. */
function dropExpired(w: Int32Array, shard: number, line: number, now: number, window: number): number {
  if (w[line + keyLine.oldest] !== 0 && dropFromChain(w, shard, line, now, window)) {
    return w[line + keyLine.units] as number;
  }
  const about = w[line + keyLine.about] as number;
  let units = w[line + keyLine.units] as number;
  let first = ringFirst(about);
  let pairs = ringPairs(about);
  for (; pairs > 0; pairs -= 1) {
    const at = ringPairAt(line, first, 0);
    const count = w[at + 1] as number;
    if (count > 0 && !isExpired(w[at] as number, now, window)) break;
    units -= count;
    first = (first + 1) & 3;
  }
  w[line + keyLine.about] = withRing(about, first, pairs);
  w[line + keyLine.units] = units;
  return units;
}

/** Returns false if no pair of the chain is left: then the pairs of the buffer are those of the ring. */
function dropFromChain(w: Int32Array, shard: number, line: number, now: number, window: number): boolean {
  const oldest = w[line + keyLine.oldest] as number;
  const newest = w[line + keyLine.newest] as number;
  const last = blockOfRef(newest);
  let units = w[line + keyLine.units] as number;
  let blockLine = blockOfRef(oldest);
  let index = indexOfRef(oldest);
  for (;;) {
    if (index === (blockLine === last ? pairsInBlock(newest) : blockPairs)) {
      if (blockLine === last) {
        // A pair of the buffer stands where the ring has its second.
        w[line + keyLine.about] = withRing(w[line + keyLine.about] as number, 1, pairsInBuffer(newest));
        w[line + keyLine.oldest] = 0;
        w[line + keyLine.units] = units;
        freeChain(w, shard, blockOfRef(oldest), last);
        return false;
      }
      blockLine = nextBlock(w, shard, blockLine);
      index = 0;
      continue;
    }
    const at = blockPairAt(shard, blockLine, index);
    const count = w[at + 1] as number;
    if (count > 0 && !isExpired(w[at] as number, now, window)) break;
    units -= count;
    index += 1;
  }
  w[line + keyLine.oldest] = oldestRef(blockLine, index);
  w[line + keyLine.pairs] = w[blockPairAt(shard, blockLine, index)] as number;
  w[line + keyLine.units] = units;
  if (blockLine !== blockOfRef(oldest)) freeBlocks(w, shard, blockOfRef(oldest), blockLine);
  return true;
}

/** Frees the blocks from one to the last. */
function freeChain(w: Int32Array, shard: number, from: number, last: number): void {
  freeBlocks(w, shard, from, last);
  freeLine(w, shard, last);
}

/** Frees the blocks from one to another, without the latter. */
function freeBlocks(w: Int32Array, shard: number, from: number, to: number): void {
  for (let blockLine = from; blockLine !== to; ) {
    const next = nextBlock(w, shard, blockLine);
    freeLine(w, shard, blockLine);
    blockLine = next;
  }
}
