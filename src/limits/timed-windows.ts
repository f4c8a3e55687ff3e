// Counters by key and by instant: a map and a binary heap of the same entries, the smallest instant first. Finding a
// key or the next instant takes constant time, adding and deleting log n.
import type { Counter } from "../core/counter.ts";

export interface TimedWindow<C extends Counter = Counter> {
  readonly key: string;
  readonly counter: C;
  readonly atMs: number;
}

interface Entry<C extends Counter> extends TimedWindow<C> {
  /** Its index in the heap. */
  index: number;
}

export class TimedWindows<C extends Counter = Counter> {
  readonly #byKey = new Map<string, Entry<C>>();
  readonly #heap: Entry<C>[] = [];

  get size(): number {
    return this.#heap.length;
  }

  get(key: string): TimedWindow<C> | undefined {
    // Usually there is none.
    return this.#heap.length === 0 ? undefined : this.#byKey.get(key);
  }

  /** The entry with the smallest instant. */
  first(): TimedWindow<C> | undefined {
    return this.#heap[0];
  }

  /** The key must not be present yet. */
  add(key: string, counter: C, atMs: number): void {
    const entry = { key, counter, atMs, index: this.#heap.length };
    this.#byKey.set(key, entry);
    this.#raise(entry);
  }

  /** False if the key was not present. */
  delete(key: string): boolean {
    const entry = this.#byKey.get(key);
    if (entry === undefined) return false;
    this.#byKey.delete(key);
    const last = this.#heap.pop();
    if (last === undefined || last === entry) return true;
    // The last entry fills the gap, and may belong further up or further down from there.
    last.index = entry.index;
    this.#raise(last);
    this.#lower(last);
    return true;
  }

  #raise(entry: Entry<C>): void {
    for (;;) {
      const parent = this.#heap[(entry.index - 1) >> 1];
      if (entry.index === 0 || parent === undefined || parent.atMs <= entry.atMs) break;
      this.#swapPlaces(entry, parent);
    }
    this.#heap[entry.index] = entry;
  }

  #lower(entry: Entry<C>): void {
    for (;;) {
      const child = this.#smallerChild(entry.index);
      if (child === undefined || entry.atMs <= child.atMs) break;
      this.#swapPlaces(entry, child);
    }
    this.#heap[entry.index] = entry;
  }

  /** Moves `other` to the place of `entry`. The caller stores `entry` when its final place is found. */
  #swapPlaces(entry: Entry<C>, other: Entry<C>): void {
    const { index } = other;
    other.index = entry.index;
    this.#heap[other.index] = other;
    entry.index = index;
  }

  #smallerChild(index: number): Entry<C> | undefined {
    const left = this.#heap[2 * index + 1];
    const right = this.#heap[2 * index + 2];
    return left !== undefined && right !== undefined && right.atMs < left.atMs ? right : left;
  }
}
