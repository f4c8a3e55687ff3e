// A binary heap. Adding, moving and deleting an item each take O(log n).

export class Heap<T> {
  readonly #isBefore: (a: T, b: T) => boolean;
  readonly #items: T[] = [];
  readonly #indexes = new Map<T, number>();

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get first(): T | undefined {
    return this.#items[0];
  }

  /** Adds an item, or moves one whose order has changed. */
  place(item: T): void {
    const index = this.#indexes.get(item) ?? this.#items.length;
    this.#sink(item, this.#rise(item, index));
  }

  delete(item: T): void {
    const index = this.#indexes.get(item);
    if (index === undefined) return;
    this.#indexes.delete(item);
    const last = this.#items.pop() as T;
    if (last !== item) this.#sink(last, this.#rise(last, index));
  }

  /** Moves parents down from `index` on, as long as the item comes before them. Returns the place that becomes free. */
  #rise(item: T, index: number): number {
    let at = index;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = this.#items[parent] as T;
      if (!this.#isBefore(item, above)) break;
      this.#put(above, at);
      at = parent;
    }
    return at;
  }

  #sink(item: T, index: number): void {
    let at = index;
    for (;;) {
      const left = 2 * at + 1;
      const right = left + 1;
      if (left >= this.#items.length) break;
      const isRight = right < this.#items.length && this.#isBefore(this.#items[right] as T, this.#items[left] as T);
      const child = isRight ? right : left;
      const below = this.#items[child] as T;
      if (!this.#isBefore(below, item)) break;
      this.#put(below, at);
      at = child;
    }
    this.#put(item, at);
  }

  #put(item: T, at: number): void {
    this.#items[at] = item;
    this.#indexes.set(item, at);
  }
}
