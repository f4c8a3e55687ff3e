// What must hold in the memory of a table whenever nobody is changing it: each line is free or used once, each key is
// where its hash says, and all sums are those of what they are about.
import { CounterKey } from "../../../src/core/counter-key.ts";
import { Cursor, findKey, isFree, Locator } from "../../../src/limits/table/directory.ts";
import { eachPair, oldestInstant } from "../../../src/limits/table/key-log.ts";
import {
  blockOfRef,
  bucketAt,
  bucketEntries,
  fingerprintOf,
  firstBucketOf,
  firstDataLine,
  type Geometry,
  geometryOf,
  isAddressKey,
  keyLine,
  kindOf,
  lineAt,
  lineOfEntry,
  nextBlock,
  shardAt,
  shardHeader,
  slotOf,
} from "../../../src/limits/table/layout.ts";

/** Returns what is wrong with the shards of a table, which no thread may use. */
export function flawsOf(
  memory: SharedArrayBuffer,
  secret: Uint8Array,
  places = new Locator(geometryOf(memory.byteLength), secret),
): string[] {
  const w = new Int32Array(memory);
  const geometry = geometryOf(memory.byteLength);
  return Array.from({ length: geometry.shards }, (_, index) =>
    new ShardCheck(w, index, geometry, places).flaws().map((flaw) => `shard ${index}: ${flaw}`),
  ).flat();
}

class ShardCheck {
  readonly #w: Int32Array;
  readonly #shard: number;
  readonly #geometry: Geometry;
  readonly #places: Locator;
  readonly #isUsed: Uint8Array;
  readonly #away: number[];
  readonly #flaws: string[] = [];

  constructor(w: Int32Array, index: number, geometry: Geometry, places: Locator) {
    this.#w = w;
    this.#shard = shardAt(index, geometry);
    this.#geometry = geometry;
    this.#places = places;
    this.#isUsed = new Uint8Array(geometry.shardLines);
    this.#away = new Array<number>(geometry.buckets).fill(0);
  }

  flaws(): string[] {
    const { buckets } = this.#geometry;
    const shard = this.#shard;
    let keys = 0;
    for (let bucket = 0; bucket < buckets; bucket += 1) keys += this.#checkBucket(bucket);
    this.#expect("lock", this.#w[shard + shardHeader.lock], 0);
    this.#expect("keys", this.#w[shard + shardHeader.keys], keys);
    for (const [bucket, count] of this.#away.entries()) {
      this.#expect(`away from bucket ${bucket}`, this.#w[bucketAt(shard, bucket)], count);
    }
    this.#checkFreeLines();
    return this.#flaws;
  }

  #expect(what: string, is: number | undefined, should: number): void {
    if (is !== should) this.#flaws.push(`${what} is ${is}, should be ${should}`);
  }

  /** Returns the keys of the bucket. */
  #checkBucket(bucket: number): number {
    const begin = bucketAt(this.#shard, bucket) + 1;
    let keys = 0;
    for (let i = 0; i < bucketEntries; i += 1) {
      const entry = this.#w[begin + i] as number;
      if (entry === 0) continue;
      if (keys < i) this.#flaws.push(`bucket ${bucket} has a gap before ${i}`);
      keys += 1;
      this.#use(lineOfEntry(entry));
      this.#checkKey(lineAt(this.#shard, lineOfEntry(entry)), fingerprintOf(entry), bucket);
    }
    return keys;
  }

  #use(line: number): void {
    const { shardLines } = this.#geometry;
    const isLine = line >= firstDataLine(this.#geometry) && line < shardLines;
    if (!isLine || this.#isUsed[line] !== 0) this.#flaws.push(`line ${line} is used twice or is none`);
    this.#isUsed[line] = 1;
  }

  #checkKey(line: number, fingerprint: number, bucket: number): void {
    const w = this.#w;
    const word = (i: number): number => w[line + i] as number;
    const about = word(keyLine.about);
    const cursor = new Cursor();
    cursor.slot = slotOf(about);
    const key = new CounterKey(word(0), word(1), word(2), word(3), isAddressKey(about));
    this.#places.point(cursor, kindOf(about), key);
    const home = firstBucketOf(about);
    const isThere = home < 0 ? bucket === cursor.firstBucket : bucket === cursor.secondBucket;
    if (!isThere || (home >= 0 && home !== cursor.firstBucket) || cursor.shard !== this.#shard) {
      this.#flaws.push(`a key in bucket ${bucket} belongs to ${cursor.firstBucket}, ${cursor.secondBucket}`);
    }
    this.#expect(`fingerprint in bucket ${bucket}`, fingerprint, cursor.fingerprint);
    if (home >= 0) this.#away[home] = (this.#away[home] ?? 0) + 1;
    // Such a line is found without the directory.
    const found = findKey(this.#w, cursor);
    this.#expect(`line of a key in bucket ${bucket}`, found, line);
    this.#checkPairs(line);
  }

  #checkPairs(line: number): void {
    const w = this.#w;
    let units = 0;
    let pairs = 0;
    let first = 0;
    eachPair(w, this.#shard, line, (at) => {
      if (pairs === 0) first = w[at] as number;
      pairs += 1;
      units += w[at + 1] as number;
      return true;
    });
    this.#expect(`units of line ${line}`, w[line + keyLine.units], units);
    if (pairs > 0) this.#expect(`oldest instant of line ${line}`, oldestInstant(w, line), first);
    const oldest = w[line + keyLine.oldest] as number;
    if (oldest === 0) return;
    const last = blockOfRef(w[line + keyLine.newest] as number);
    for (let number = blockOfRef(oldest); ; number = nextBlock(w, this.#shard, number)) {
      this.#use(number);
      if (number === last || this.#flaws.length > 100) return;
    }
  }

  #checkFreeLines(): void {
    const w = this.#w;
    const shard = this.#shard;
    let free = 0;
    let lastFree = 0;
    for (let line = firstDataLine(this.#geometry); line < this.#geometry.shardLines; line += 1) {
      if (isFree(w, shard, line) !== (this.#isUsed[line] === 0)) this.#flaws.push(`the bit of line ${line} is wrong`);
      if (this.#isUsed[line] !== 0) continue;
      free += 1;
      lastFree = line;
      if (w[lineAt(shard, line) + keyLine.about] !== 0) this.#flaws.push(`line ${line} is free and about a key`);
    }
    this.#expect("free lines", w[shard + shardHeader.free], free);
    if ((w[shard + shardHeader.top] as number) < lastFree >>> 5) this.#flaws.push("the top is below a free line");
  }
}
