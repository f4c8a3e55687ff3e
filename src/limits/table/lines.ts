// The lines of a shard that are free. A line that was never used is taken only when no other is free, so that a new
// table takes no memory of the machine.
import { firstDataLine, type Geometry, lineAt, shardHeader } from "./layout.ts";

/** Makes the lines of an empty shard. */
export function formatShard(w: Int32Array, shard: number, geometry: Geometry): void {
  w[shard + shardHeader.firstFree] = 0;
  w[shard + shardHeader.firstUnused] = firstDataLine(geometry);
  w[shard + shardHeader.free] = geometry.shardLines - firstDataLine(geometry);
}

export function freeLines(w: Int32Array, shard: number): number {
  return w[shard + shardHeader.free] as number;
}

/** Returns the number of a line that nobody uses; 0 if there is none. */
export function takeLine(w: Int32Array, shard: number): number {
  const free = w[shard + shardHeader.free] as number;
  if (free === 0) return 0;
  let line = w[shard + shardHeader.firstFree] as number;
  if (line === 0) {
    line = w[shard + shardHeader.firstUnused] as number;
    w[shard + shardHeader.firstUnused] = line + 1;
  } else {
    w[shard + shardHeader.firstFree] = w[lineAt(shard, line)] as number;
  }
  w[shard + shardHeader.free] = free - 1;
  return line;
}

export function freeLine(w: Int32Array, shard: number, line: number): void {
  w[lineAt(shard, line)] = w[shard + shardHeader.firstFree] as number;
  w[shard + shardHeader.firstFree] = line;
  w[shard + shardHeader.free] = (w[shard + shardHeader.free] as number) + 1;
}
