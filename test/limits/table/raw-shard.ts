// One shard without a table, for tests of its parts.

import { formatShard, freeLines, isFree, takeLine } from "../../../src/limits/table/directory.ts";
import { eachPair } from "../../../src/limits/table/key-log.ts";
import { type Geometry, keyLine, lineAt, lineWords } from "../../../src/limits/table/layout.ts";

export type Pair = readonly [instant: number, units: number];

/** The word at which the shard begins. */
export const shard = 0;

export interface RawShard {
  readonly w: Int32Array;
  readonly geometry: Geometry;
}

/** `lines`: for keys and blocks. */
export function createShard(lines: number, buckets = 2): RawShard {
  const bitmapLines = 1;
  const shardLines = 1 + buckets + bitmapLines + lines;
  const shardWords = shardLines * lineWords;
  const geometry = { shards: 1, ownShards: 1, shardWords, shardLines, buckets, reserved: 0, homeLines: lines };
  const w = new Int32Array(shardWords);
  formatShard(w, shard, geometry);
  return { w, geometry };
}

/** Returns the word of a key without units, which no directory leads to. */
export function createKey({ w }: RawShard): number {
  const line = lineAt(shard, takeLine(w, shard));
  for (const word of [keyLine.about, keyLine.units, keyLine.oldest, keyLine.newest]) w[line + word] = 0;
  return line;
}

/** The pairs of a key as the table has them. */
export function pairsOf({ w }: RawShard, line: number): Pair[] {
  const pairs: Pair[] = [];
  eachPair(w, shard, line, (at) => {
    pairs.push([(w[at] as number) >>> 0, w[at + 1] as number]);
    return true;
  });
  return pairs;
}

/** The lines that are free by the bitmap, which are counted. */
export function freeLinesOf({ w, geometry }: RawShard, at = shard): number {
  let free = 0;
  for (let line = 0; line < geometry.shardLines; line += 1) if (isFree(w, at, line)) free += 1;
  if (free !== freeLines(w, at)) throw new Error(`${free} lines are free, not ${freeLines(w, at)}`);
  return free;
}
