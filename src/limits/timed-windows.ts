// Windows by client and by instant: a map and a binary heap of the same entries, the smallest instant first. Finding a
// client or the next instant takes constant time, adding and deleting log n.
import type { SlidingWindow } from "../core/sliding-window.ts";

export interface TimedWindow {
  readonly client: string;
  readonly window: SlidingWindow;
  readonly atMs: number;
}

interface Entry extends TimedWindow {
  /** Its index in the heap. */
  index: number;
}

export class TimedWindows {
  readonly #byClient = new Map<string, Entry>();
  readonly #heap: Entry[] = [];

  get size(): number {
    return this.#heap.length;
  }

  get(client: string): SlidingWindow | undefined {
    return this.#byClient.get(client)?.window;
  }

  /** The entry with the smallest instant. */
  first(): TimedWindow | undefined {
    return this.#heap[0];
  }

  /** The client must not be present yet. */
  add({ client, window, atMs }: TimedWindow): void {
    const entry = { client, window, atMs, index: this.#heap.length };
    this.#byClient.set(client, entry);
    this.#raise(entry);
  }

  /** False if the client was not present. */
  delete(client: string): boolean {
    const entry = this.#byClient.get(client);
    if (entry === undefined) return false;
    this.#byClient.delete(client);
    const last = this.#heap.pop();
    if (last === undefined || last === entry) return true;
    // The last entry fills the gap, and may belong further up or further down from there.
    last.index = entry.index;
    this.#raise(last);
    this.#lower(last);
    return true;
  }

  #raise(entry: Entry): void {
    for (;;) {
      const parent = this.#heap[(entry.index - 1) >> 1];
      if (entry.index === 0 || parent === undefined || parent.atMs <= entry.atMs) break;
      this.#swapPlaces(entry, parent);
    }
    this.#heap[entry.index] = entry;
  }

  #lower(entry: Entry): void {
    for (;;) {
      const child = this.#smallerChild(entry.index);
      if (child === undefined || entry.atMs <= child.atMs) break;
      this.#swapPlaces(entry, child);
    }
    this.#heap[entry.index] = entry;
  }

  /** Moves `other` to the place of `entry`. The caller stores `entry` when its final place is found. */
  #swapPlaces(entry: Entry, other: Entry): void {
    const { index } = other;
    other.index = entry.index;
    this.#heap[other.index] = other;
    entry.index = index;
  }

  #smallerChild(index: number): Entry | undefined {
    const left = this.#heap[2 * index + 1];
    const right = this.#heap[2 * index + 2];
    return left !== undefined && right !== undefined && right.atMs < left.atMs ? right : left;
  }
}
