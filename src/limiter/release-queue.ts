// Exhausted clients in the order in which they get quota back: a binary heap, smallest instant on top.
// Guarantees that the next one due is found at once and that pushing and popping cost log n.

export interface Release {
  readonly client: string;
  /** The instant at which the client has quota again. */
  readonly atMs: number;
}

export class ReleaseQueue {
  readonly #heap: Release[] = [];

  peek(): Release | undefined {
    return this.#heap[0];
  }

  push(release: Release): void {
    const heap = this.#heap;
    let index = heap.length;
    heap.push(release);
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = heap[parentIndex];
      if (parent === undefined || parent.atMs <= release.atMs) break;
      heap[index] = parent;
      index = parentIndex;
    }
    heap[index] = release;
  }

  pop(): Release | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let index = 0;
    for (;;) {
      const childIndex = this.#smallerChild(index);
      const child = heap[childIndex];
      if (child === undefined || last.atMs <= child.atMs) break;
      heap[index] = child;
      index = childIndex;
    }
    heap[index] = last;
    return first;
  }

  #smallerChild(index: number): number {
    const left = this.#heap[2 * index + 1];
    const right = this.#heap[2 * index + 2];
    return left !== undefined && right !== undefined && right.atMs < left.atMs ? 2 * index + 2 : 2 * index + 1;
  }
}
