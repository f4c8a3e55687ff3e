// SipHash-2-4 (Aumasson and Bernstein): a hash with a secret key, so that nobody outside of this process can find two inputs
// with the same hash, or choose keys that meet in one place of a table. Calculates with words of 32 bits, because each step
// with a BigInt would allocate an object.
import { CounterKey } from "../../core/counter-key.ts";

const sipKeyBytes = 16;

/** "somepseudorandomlygeneratedbytes": v0 to v3, each as its low and its high word. */
const initial = [
  0x70736575, 0x736f6d65, 0x6e646f6d, 0x646f7261, 0x6e657261, 0x6c796765, 0x79746573, 0x74656462,
] as const;

/** Hashes texts to keys, with 128 bits of output. */
export class SipHash {
  /** The state before the first block. */
  #start: Int32Array;

  /** `key`: 16 bytes. */
  constructor(key: Uint8Array) {
    this.#start = startOf(key);
  }

  /** Hashes with another key from now on. */
  replaceKey(key: Uint8Array): void {
    this.#start = startOf(key);
  }

  /** Returns the hash of the first `length` bytes as the key of a counter, each word low byte first. */
  key(bytes: Uint8Array, length = bytes.length): CounterKey {
    const hash = new Int32Array(4);
    sipHash(this.#start, bytes, length, hash);
    const [a = 0, b = 0, c = 0, d = 0] = hash;
    return new CounterKey(a, b, c, d, false);
  }
}

/** Calculates where a key goes in a table, with 64 bits of output. Allocates nothing for a key. */
export class KeyPlacer {
  readonly #start: Int32Array;
  readonly #bytes = new Uint8Array(sipKeyBytes);
  readonly #words = new DataView(this.#bytes.buffer);
  readonly #hash = new Int32Array(2);

  /** `secret`: 16 random bytes. */
  constructor(secret: Uint8Array) {
    this.#start = startOf(secret);
  }

  /** A key that is a hash is used as it is, because nobody outside of this process can choose it. */
  place(key: CounterKey): void {
    const { a, b, c, d } = key;
    key.isPlaced = true;
    key.place = a;
    key.tag = b;
    if (!key.isAddress) return;
    this.#words.setInt32(0, a, true);
    this.#words.setInt32(4, b, true);
    this.#words.setInt32(8, c, true);
    this.#words.setInt32(12, d, true);
    sipHash(this.#start, this.#bytes, sipKeyBytes, this.#hash);
    key.place = this.#hash[0] as number;
    key.tag = this.#hash[1] as number;
  }
}

/** Hashes the first `length` bytes to `hash`, which has two words (64 bits of output) or four (128 bits). */
function sipHash(start: Int32Array, bytes: Uint8Array, length: number, hash: Int32Array): void {
  const isWide = hash.length === 4;
  let v0 = start[0] as number;
  let v0High = start[1] as number;
  // Separates the variant with 128 bits of output from the one with 64.
  let v1 = (start[2] as number) ^ (isWide ? 0xee : 0);
  let v1High = start[3] as number;
  let v2 = start[4] as number;
  let v2High = start[5] as number;
  let v3 = start[6] as number;
  let v3High = start[7] as number;
  // Blocks of 8 bytes, the last of which ends with the length. Then, each half of the output takes a step of its own.
  const last = length >>> 3;
  for (let block = 0; block <= last + hash.length / 2; block += 1) {
    const low = block > last ? 0 : wordAt(bytes, block * 8, length);
    let high = block > last ? 0 : wordAt(bytes, block * 8 + 4, length);
    if (block === last) high |= length << 24;
    else if (block === last + 1) v2 ^= isWide ? 0xee : 0xff;
    else if (block === last + 2) {
      hash[0] = v0 ^ v1 ^ v2 ^ v3;
      hash[1] = v0High ^ v1High ^ v2High ^ v3High;
      v1 ^= 0xdd;
    }
    v3 ^= low;
    v3High ^= high;
    for (let rounds = block > last ? 4 : 2; rounds > 0; rounds -= 1) {
      // v0 += v1; v1 = v1 <<< 13 ^ v0; v0 <<<= 32; v2 += v3; v3 = v3 <<< 16 ^ v2
      let sum = (v0 + v1) | 0;
      let sumHigh = (((v0High + v1High) | 0) + carry(v0, sum)) | 0;
      let turned = ((v1High << 13) | (v1 >>> 19)) ^ sumHigh;
      v1 = ((v1 << 13) | (v1High >>> 19)) ^ sum;
      v1High = turned;
      v0 = sumHigh;
      v0High = sum;
      sum = (v2 + v3) | 0;
      v2High = (((v2High + v3High) | 0) + carry(v2, sum)) | 0;
      v2 = sum;
      turned = ((v3High << 16) | (v3 >>> 16)) ^ v2High;
      v3 = ((v3 << 16) | (v3High >>> 16)) ^ v2;
      v3High = turned;
      // v0 += v3; v3 = v3 <<< 21 ^ v0; v2 += v1; v1 = v1 <<< 17 ^ v2; v2 <<<= 32
      sum = (v0 + v3) | 0;
      v0High = (((v0High + v3High) | 0) + carry(v0, sum)) | 0;
      v0 = sum;
      turned = ((v3High << 21) | (v3 >>> 11)) ^ v0High;
      v3 = ((v3 << 21) | (v3High >>> 11)) ^ v0;
      v3High = turned;
      sum = (v2 + v1) | 0;
      sumHigh = (((v2High + v1High) | 0) + carry(v2, sum)) | 0;
      turned = ((v1High << 17) | (v1 >>> 15)) ^ sumHigh;
      v1 = ((v1 << 17) | (v1High >>> 15)) ^ sum;
      v1High = turned;
      v2 = sumHigh;
      v2High = sum;
    }
    v0 ^= low;
    v0High ^= high;
  }
  hash[hash.length - 2] = v0 ^ v1 ^ v2 ^ v3;
  hash[hash.length - 1] = v0High ^ v1High ^ v2High ^ v3High;
}

/** Returns the state before the first block: v0 to v3, each as its low and its high word. `key`: 16 bytes. */
function startOf(key: Uint8Array): Int32Array {
  if (key.length !== sipKeyBytes) throw new Error(`the key has ${key.length} bytes, expected ${sipKeyBytes}`);
  return Int32Array.from(initial, (word, i) => word ^ wordAt(key, (i * 4) % sipKeyBytes, sipKeyBytes));
}

/**
 * Returns 1 if adding to `a` overflowed to `sum`, else 0; without a branch, which would often be mispredicted. It is
 * added to a sum that is cut to 32 bits before, because V8 checks the sum of three words for an overflow.
 */
function carry(a: number, sum: number): number {
  return Number(sum >>> 0 < a >>> 0);
}

/** Returns the four bytes from an offset on as a word, low byte first. Bytes behind `length` count as 0. */
function wordAt(bytes: Uint8Array, at: number, length: number): number {
  if (at + 4 <= length) {
    return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
  }
  let word = 0;
  for (let i = at; i < length; i += 1) word |= (bytes[i] ?? 0) << ((i - at) * 8);
  return word;
}
