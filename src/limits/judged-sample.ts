// Which clients are judged while a configuration is on trial, and what came of their requests, in memory that threads share. At
// first all clients are judged. Each time there are too many, those stay whose hash is in the lower half of what it was: the
// sample does not depend on how much a client asks, and nobody outside of the process can choose to be in it.
import type { TrialTally } from "../core/reload.ts";

/** With so many clients, half of them are judged no longer. */
export const mostClients = 4096;

/** Twice as many as can be added: `mostClients`, and with each of 31 halvings half as many. */
const places = 2 ** 17;
const placesAt = 8;
/** A client that finds no place after so many is not judged. */
const mostLooked = 64;
const lastLevel = 31;

/** Where the numbers are, in words. The instant of the begin has two. */
const at = { since: 0, level: 2, clients: 3, judged: 4, refused: 5 } as const;

export class JudgedSample {
  readonly #w: Int32Array;
  readonly #since: Float64Array;

  /** `memory`: made by `createMemory`. */
  constructor(memory: SharedArrayBuffer) {
    this.#w = new Int32Array(memory);
    this.#since = new Float64Array(memory, 0, 1);
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer((placesAt + places) * Int32Array.BYTES_PER_ELEMENT);
  }

  /** The monotonic instant at which the first thread began to judge. */
  begin(nowMs: number): number {
    if (this.#since[0] === 0) this.#since[0] = nowMs;
    return this.#since[0] as number;
  }

  /** Both start again at 0 after 2^32. */
  get tally(): TrialTally {
    const count = (word: number): number => Atomics.load(this.#w, word) >>> 0;
    return { judged: count(at.judged), refused: count(at.refused) };
  }

  /** Counts a request that the policies before would have admitted. */
  count(isRefused: boolean): void {
    Atomics.add(this.#w, at.judged, 1);
    if (isRefused) Atomics.add(this.#w, at.refused, 1);
  }

  /** Returns whether a client is judged. `hash`: 32 bits of a keyed hash. Adds the client if it is new. */
  has(hash: number): boolean {
    const w = this.#w;
    const level = Atomics.load(w, at.level);
    if (!isIn(hash, level)) return false;
    const entry = hash === 0 ? 1 : hash | 0;
    for (let looked = 0; looked < mostLooked; looked += 1) {
      const place = placesAt + ((hash + looked) & (places - 1));
      const found = Atomics.compareExchange(w, place, 0, entry);
      if (found === entry) return true;
      if (found !== 0) continue;
      if (Atomics.add(w, at.clients, 1) + 1 >= mostClients) this.#halve(level);
      return true;
    }
    return false;
  }

  /** Takes a fifth of a millisecond. */
  #halve(level: number): void {
    const w = this.#w;
    if (level === lastLevel || Atomics.compareExchange(w, at.level, level, level + 1) !== level) return;
    let clients = 0;
    for (let i = placesAt; i < w.length; i += 1) {
      const entry = w[i] as number;
      if (entry !== 0 && isIn(entry, level + 1)) clients += 1;
    }
    Atomics.store(w, at.clients, clients);
  }
}

function isIn(hash: number, level: number): boolean {
  return level === 0 || hash >>> (32 - level) === 0;
}
