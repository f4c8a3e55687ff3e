// Finds a slot of columns by the hash of its key, without an object for a key: open addressing with linear probing, at most
// half full. What is removed leaves no mark, so the cost of a search does not grow with what was removed before.
import { randomFillSync } from "node:crypto";

/** No slot, or no position. */
export const none = -1;

export class SlotIndex {
  /** A slot and one; 0: free. */
  readonly #slots: Int32Array;
  /** Of each slot. */
  readonly #hashes: Int32Array;
  readonly #mask: number;

  /** Slots are numbered from 0. */
  constructor(slots: number) {
    const size = 2 ** Math.ceil(Math.log2(Math.max(2, 2 * slots)));
    this.#slots = new Int32Array(size);
    this.#hashes = new Int32Array(slots);
    this.#mask = size - 1;
  }

  get bytes(): number {
    return this.#slots.byteLength + this.#hashes.byteLength;
  }

  /** Returns the position of the first slot with this hash, or of the next one after `position`; `none` if there is none. */
  next(hash: number, position = none): number {
    let at = position === none ? hash & this.#mask : (position + 1) & this.#mask;
    for (; ; at = (at + 1) & this.#mask) {
      const slot = (this.#slots[at] as number) - 1;
      if (slot === none) return none;
      if (this.#hashes[slot] === hash) return at;
    }
  }

  slotAt(position: number): number {
    return (this.#slots[position] as number) - 1;
  }

  /** The slot must not be in the index. */
  add(hash: number, slot: number): void {
    let at = hash & this.#mask;
    while (this.#slots[at] !== 0) at = (at + 1) & this.#mask;
    this.#slots[at] = slot + 1;
    this.#hashes[slot] = hash;
  }

  /** The slot must be in the index. Moves those behind it nearer to where they are searched for. */
  remove(slot: number): void {
    let free = (this.#hashes[slot] as number) & this.#mask;
    while (this.#slots[free] !== slot + 1) free = (free + 1) & this.#mask;
    for (let at = (free + 1) & this.#mask; this.#slots[at] !== 0; at = (at + 1) & this.#mask) {
      const home = (this.#hashes[(this.#slots[at] as number) - 1] as number) & this.#mask;
      if (((at - home) & this.#mask) < ((at - free) & this.#mask)) continue;
      this.#slots[free] = this.#slots[at] as number;
      free = at;
    }
    this.#slots[free] = 0;
  }

  clear(): void {
    this.#slots.fill(0);
  }
}

/** Random, so that nobody can choose addresses whose hashes are near each other. */
const secrets = randomFillSync(new Int32Array(4));
const [s0 = 0, s1 = 0, s2 = 0, s3 = 0] = secrets;

/** Hashes the four words of a CounterKey. */
export function hashOfWords(a: number, b: number, c: number, d: number): number {
  let hash = Math.imul(a ^ s0, 0x85ebca6b);
  hash = mixed(hash ^ b ^ s1);
  hash = mixed(hash ^ c ^ s2);
  return mixed(hash ^ d ^ s3);
}

function mixed(value: number): number {
  let hash = value ^ (value >>> 16);
  hash = Math.imul(hash, 0x7feb352d);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x846ca68b | 0);
  return hash ^ (hash >>> 16);
}
