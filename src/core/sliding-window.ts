// The counter of an exact sliding window: a ring of the instants of the units that were admitted last, the oldest
// first. Units of one instant are entries of their own, so that each can be given back.
import type { Counter } from "./counter.ts";

/**
 * Larger rings are typed arrays: these are made and copied several times faster, but take more memory if they are
 * small.
 */
const maxPlainLength = 4096;

export class SlidingWindow implements Counter {
  // Most clients send few requests, so the ring starts with one place and doubles up to the limit.
  #admittedAtMs: number[] | Float64Array = [];
  #oldest = 0;
  #counted = 0;

  count(nowMs: number, windowMs: number): number {
    if (this.#counted > 0 && this.#isExpired(0, nowMs, windowMs)) this.#forgetUntil(nowMs, windowMs);
    return this.#counted;
  }

  record(units: number, nowMs: number, limit: number): number {
    const newestMs = this.newestMs();
    // The search for an instant needs them in order.
    const atMs = newestMs > nowMs ? newestMs : nowMs;
    if (this.#counted + units > this.#admittedAtMs.length) this.#grow(this.#counted + units, limit);
    for (let i = 0; i < units; i += 1) this.#admittedAtMs[this.#placeOf(this.#counted + i)] = atMs;
    this.#counted += units;
    return atMs;
  }

  remove(units: number, atMs: number): number {
    const first = this.#firstFrom(atMs);
    let found = 0;
    while (found < units && first + found < this.#counted && this.instantAt(first + found) === atMs) found += 1;
    if (found > 0) this.#close(first, found);
    return this.#counted;
  }

  instantAt(index: number): number {
    // There is always a value. NaN would admit nothing and reveal the bug.
    return this.#admittedAtMs[this.#placeOf(index)] ?? Number.NaN;
  }

  newestMs(): number {
    const { length } = this.#admittedAtMs;
    // The newest unit keeps its place when it expires.
    if (length === 0) return Number.NEGATIVE_INFINITY;
    return this.instantAt(this.#counted === 0 ? length - 1 : this.#counted - 1);
  }

  #forgetUntil(nowMs: number, windowMs: number): void {
    // Searches, because a million units may expire at once. The steps grow, because usually only one expires.
    let expired = 0;
    let kept = 1;
    while (kept < this.#counted && this.#isExpired(kept, nowMs, windowMs)) {
      expired = kept;
      kept *= 2;
    }
    kept = Math.min(kept, this.#counted);
    while (expired + 1 < kept) {
      const middle = (expired + kept) >>> 1;
      if (this.#isExpired(middle, nowMs, windowMs)) expired = middle;
      else kept = middle;
    }
    this.#oldest = this.#placeOf(kept);
    this.#counted -= kept;
  }

  /** Returns the place in the ring. `index`: from 0 for the oldest unit to the length of the ring. */
  #placeOf(index: number): number {
    const place = this.#oldest + index;
    // Cheaper than a remainder.
    return place < this.#admittedAtMs.length ? place : place - this.#admittedAtMs.length;
  }

  /** The same sum as in the reset that clients are told. */
  #isExpired(index: number, nowMs: number, windowMs: number): boolean {
    return this.instantAt(index) + windowMs <= nowMs;
  }

  #grow(needed: number, limit: number): void {
    const size = Math.max(needed, Math.min(limit, this.#admittedAtMs.length * 2));
    const grown = size > maxPlainLength ? new Float64Array(size) : new Array<number>(size).fill(0);
    for (let i = 0; i < this.#counted; i += 1) grown[i] = this.instantAt(i);
    this.#admittedAtMs = grown;
    this.#oldest = 0;
  }

  /** Returns the index of the first unit that is not older than the instant. */
  #firstFrom(atMs: number): number {
    let low = 0;
    let high = this.#counted;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.instantAt(middle) < atMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Removes `gap` units from `first` on. Moves those on the side that has fewer. */
  #close(first: number, gap: number): void {
    const newer = this.#counted - first - gap;
    if (newer <= first) {
      for (let i = first; i < first + newer; i += 1) {
        this.#admittedAtMs[this.#placeOf(i)] = this.instantAt(i + gap);
      }
    } else {
      for (let i = first - 1; i >= 0; i -= 1) {
        this.#admittedAtMs[this.#placeOf(i + gap)] = this.instantAt(i);
      }
      this.#oldest = this.#placeOf(gap);
    }
    this.#counted -= gap;
  }
}
