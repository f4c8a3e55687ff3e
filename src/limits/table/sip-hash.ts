// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein): a hash with a secret key, so that nobody outside of this
// process can find two inputs with the same hash. Calculates with words of 32 bits, because each step with a BigInt
// would allocate an object. Allocates nothing but the result.
import { CounterKey } from "../../core/counter-key.ts";

const sipKeyBytes = 16;

/** "somepseudorandomlygeneratedbytes": v0 to v3, each as its low and its high word. */
const initial = [
  0x70736575, 0x736f6d65, 0x6e646f6d, 0x646f7261, 0x6e657261, 0x6c796765, 0x79746573, 0x74656462,
] as const;

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
    let v0 = this.#start[0] ?? 0;
    let v0High = this.#start[1] ?? 0;
    let v1 = this.#start[2] ?? 0;
    let v1High = this.#start[3] ?? 0;
    let v2 = this.#start[4] ?? 0;
    let v2High = this.#start[5] ?? 0;
    let v3 = this.#start[6] ?? 0;
    let v3High = this.#start[7] ?? 0;
    let first = 0;
    let firstHigh = 0;
    // Blocks of 8 bytes, the last of which ends with the length. Then, each half of the output takes a step of its own.
    const last = length >>> 3;
    for (let block = 0; block <= last + 2; block += 1) {
      const low = block > last ? 0 : wordAt(bytes, block * 8, length);
      let high = block > last ? 0 : wordAt(bytes, block * 8 + 4, length);
      if (block === last) high |= length << 24;
      else if (block === last + 1) v2 ^= 0xee;
      else if (block === last + 2) {
        first = v0 ^ v1 ^ v2 ^ v3;
        firstHigh = v0High ^ v1High ^ v2High ^ v3High;
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
    return new CounterKey(first, firstHigh, v0 ^ v1 ^ v2 ^ v3, v0High ^ v1High ^ v2High ^ v3High, false);
  }
}

function startOf(key: Uint8Array): Int32Array {
  const start = sipStart(key);
  // Separates the variant with 128 bits of output from the one with 64.
  start[2] = (start[2] ?? 0) ^ 0xee;
  return start;
}

/** Returns the state before the first block: v0 to v3, each as its low and its high word. `key`: 16 bytes. */
function sipStart(key: Uint8Array): Int32Array {
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

// Calculates where a key goes in a table: by a hash with a secret key, so that nobody can choose keys that meet in one
// place. Allocates nothing for a key. The rounds stand here and in sip-hash.ts, because a function for both takes a
// quarter longer: their state is eight words, which such a function has to read from memory and write back.

/** The last block of 8 bytes has no more of the key, and ends with its length. */
const lastHigh = 16 << 24;

export class KeyPlacer {
  readonly #start: Int32Array;

  /** `secret`: 16 random bytes. */
  constructor(secret: Uint8Array) {
    this.#start = sipStart(secret);
  }

  /** A key that is a hash is used as it is, because nobody outside of this process can choose it. */
  place(key: CounterKey): void {
    if (key.isAddress) this.#hash(key);
    else {
      key.place = key.a;
      key.tag = key.b;
    }
    key.isPlaced = true;
  }

  /** SipHash-2-4 with 64 bits of output, over the words of the key, each low byte first. */
  #hash(key: CounterKey): void {
    let v0 = this.#start[0] ?? 0;
    let v0High = this.#start[1] ?? 0;
    let v1 = this.#start[2] ?? 0;
    let v1High = this.#start[3] ?? 0;
    let v2 = this.#start[4] ?? 0;
    let v2High = this.#start[5] ?? 0;
    let v3 = this.#start[6] ?? 0;
    let v3High = this.#start[7] ?? 0;
    for (let round = 0; round < 10; round += 1) {
      // Each block is added to v3 before its two rounds, and to v0 behind them. Four rounds finish the hash.
      if (round === 0) {
        v3 ^= key.a;
        v3High ^= key.b;
      } else if (round === 2) {
        v0 ^= key.a;
        v0High ^= key.b;
        v3 ^= key.c;
        v3High ^= key.d;
      } else if (round === 4) {
        v0 ^= key.c;
        v0High ^= key.d;
        v3High ^= lastHigh;
      } else if (round === 6) {
        v0High ^= lastHigh;
        v2 ^= 0xff;
      }
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
    key.place = v0 ^ v1 ^ v2 ^ v3;
    key.tag = v0High ^ v1High ^ v2High ^ v3High;
  }
}
