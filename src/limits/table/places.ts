// Says where a key is in the table, by a hash with a secret key: nobody outside can find keys that meet in one bucket.
// A client's hash is calculated once; each policy mixes it with two words of its own.
import { CounterKey } from "../../core/counter-key.ts";
import { KeyPlacer } from "../../core/key-placer.ts";
import type { Cursor } from "./cursor.ts";
import { firstDataLine, type Geometry, identityOf, kinds, shardAt, slots } from "./layout.ts";

export class Places {
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
