// Calculates where a key goes in a table: by a hash with a secret key, so that nobody can choose keys that meet in one
// place. Allocates nothing for a key. The rounds stand here and in sip-hash.ts, because a function for both takes a
// quarter longer: their state is eight words, which such a function has to read from memory and write back.
import type { CounterKey } from "./counter-key.ts";
import { carry, sipStart } from "./sip-hash.ts";

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
