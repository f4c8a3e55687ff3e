// Work on many items in portions: between two portions the event loop handles other events. Without this, closing
// thousands of connections at once would block it for hundreds of milliseconds.

/** Closing a connection takes about 50 µs, so a portion takes about 5 ms. */
const portion = 100;

/**
 * Visits each item, the first portion before it returns. Resolves after the last item. A Map or Set may change in between:
 * an item that is deleted before its turn is not visited, and an item that is added is visited.
 */
export async function inPortions<T>(items: Iterable<T>, visit: (item: T) => void): Promise<void> {
  let left = portion;
  for (const item of items) {
    if (left === 0) {
      await new Promise((resolve) => void setImmediate(resolve));
      left = portion;
    }
    left -= 1;
    visit(item);
  }
}

/** Visits items that arrive one by one in portions. */
export class Portions<T> {
  readonly #visit: (item: T) => void;
  readonly #items = new Set<T>();

  /** `visit` must not throw. */
  constructor(visit: (item: T) => void) {
    this.#visit = visit;
  }

  /** Visits the item in a later turn. */
  add(item: T): void {
    this.#items.add(item);
    if (this.#items.size === 1) setImmediate(() => this.#visitAll());
  }

  #visitAll(): Promise<void> {
    return inPortions(this.#items, (item) => {
      this.#items.delete(item);
      this.#visit(item);
    });
  }
}
