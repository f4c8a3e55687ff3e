// Looks through all shards of a table: what must hold after every call.
import { eachPair } from "../../../src/limits/table/key-log.ts";
import {
  blockOfRef,
  bucketAt,
  bucketEntries,
  firstDataLine,
  type Geometry,
  geometryOf,
  homeOf,
  keyLine,
  kindOf,
  lineAt,
  lineOfEntry,
  nextBlock,
  shardAt,
  shardHeader,
} from "../../../src/limits/table/layout.ts";
import { freeLines, isFree } from "../../../src/limits/table/lines.ts";
import { type CounterRecord, recordsOf } from "../../../src/limits/table/records.ts";

/** Throws unless all shards are sound. */
export function expectSound(memory: SharedArrayBuffer): void {
  const w = new Int32Array(memory);
  const geometry = geometryOf(memory.byteLength);
  for (let index = 0; index < geometry.shards; index += 1) expectSoundShard(w, shardAt(index, geometry), geometry);
}

function expectSoundShard(w: Int32Array, shard: number, geometry: Geometry): void {
  const uses = new Map<number, string>();
  const use = (line: number, what: string): void => {
    const other = uses.get(line);
    if (other !== undefined) throw new Error(`line ${line} is ${what} and ${other}`);
    if (line < firstDataLine(geometry) || line >= geometry.shardLines) throw new Error(`there is no line ${line}`);
    uses.set(line, what);
  };
  const away = new Array<number>(geometry.buckets).fill(0);
  let keys = 0;
  for (let bucket = 0; bucket < geometry.buckets; bucket += 1) {
    let ended = false;
    for (let at = bucketAt(shard, bucket) + 1; at <= bucketAt(shard, bucket) + bucketEntries; at += 1) {
      const entry = w[at] as number;
      if (entry === 0) ended = true;
      else if (ended) throw new Error(`bucket ${bucket} has an entry after a free one`);
      if (entry === 0) continue;
      keys += 1;
      use(lineOfEntry(entry), "a key");
      const line = lineAt(shard, lineOfEntry(entry));
      const home = homeOf(w[line + keyLine.about] as number);
      if (home >= 0) away[home] = (away[home] ?? 0) + 1;
      for (const block of blocksOf(w, shard, line)) use(block, "a block");
      expectSums(w, shard, line);
    }
  }
  for (let bucket = 0; bucket < geometry.buckets; bucket += 1) {
    if (w[bucketAt(shard, bucket)] !== away[bucket]) throw new Error(`bucket ${bucket} has another number away`);
  }
  if (w[shard + shardHeader.keys] !== keys) throw new Error(`${keys} keys are not ${w[shard + shardHeader.keys]}`);
  let free = 0;
  for (let line = firstDataLine(geometry); line < geometry.shardLines; line += 1) {
    if (isFree(w, shard, line) === uses.has(line)) throw new Error(`line ${line} is ${uses.get(line) ?? "lost"}`);
    if (!isFree(w, shard, line)) continue;
    free += 1;
    if (kindOf(w[lineAt(shard, line) + keyLine.about] as number) !== 0)
      throw new Error(`line ${line} looks like a key`);
  }
  if (freeLines(w, shard) !== free) throw new Error(`${free} free lines are not ${freeLines(w, shard)}`);
}

function blocksOf(w: Int32Array, shard: number, line: number): number[] {
  const oldest = w[line + keyLine.oldest] as number;
  if (oldest === 0) return [];
  const last = blockOfRef(w[line + keyLine.newest] as number);
  const blocks = [blockOfRef(oldest)];
  while (blocks.at(-1) !== last && blocks.length < 10_000) blocks.push(nextBlock(w, shard, blocks.at(-1) ?? 0));
  return blocks;
}

function expectSums(w: Int32Array, shard: number, line: number): void {
  const pairs: (readonly [instant: number, units: number])[] = [];
  eachPair(w, shard, line, (at) => pairs.push([w[at] as number, w[at + 1] as number]) > 0);
  const units = pairs.reduce((sum, [, count]) => sum + count, 0);
  if (w[line + keyLine.units] !== units) throw new Error(`${units} units are not ${w[line + keyLine.units]}`);
  if (w[line + keyLine.oldest] !== 0 && w[line + keyLine.pairs] !== pairs[0]?.[0]) throw new Error("another oldest");
}

/** All keys, by what tells one from the others. */
export function allRecords(memory: SharedArrayBuffer): Map<string, CounterRecord> {
  const w = new Int32Array(memory);
  const geometry = geometryOf(memory.byteLength);
  const records = new Map<string, CounterRecord>();
  for (let index = 0; index < geometry.shards; index += 1) {
    const shard = shardAt(index, geometry);
    for (const record of recordsOf(w.slice(shard, shard + geometry.shardWords))) {
      const { slot, kind, key, isAddress } = record;
      const id = [slot, kind, ...key, isAddress].join(" ");
      if (records.has(id)) throw new Error(`${id} is stored twice`);
      records.set(id, record);
    }
  }
  return records;
}
