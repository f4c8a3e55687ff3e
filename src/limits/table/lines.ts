// The lines of a shard that are in use, as a bitmap. A key gets a line that follows from its hash, so that it is usually
// found at the first look. Blocks and keys whose own line is taken get one from the end of the shard, where the lines of
// no hash are.
import { bitmapLine, firstDataLine, type Geometry, keyLine, lineAt, lineWords, shardHeader } from "./layout.ts";

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
