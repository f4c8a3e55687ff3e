// Virtual time: events in the order of their instants, and nothing happens in between. Promises that an event has settled
// are followed up before the next event.

/** What is due at the same instant comes in the order of the rank, then in the order in which it was asked for. */
export interface Event {
  readonly atMs: number;
  readonly rank: number;
  readonly order: number;
  run: (() => void) | null;
}

export class VirtualTime {
  /** True time, which no clock of the simulation shows. */
  nowMs = 0;
  #order = 0;
  readonly #heap: Event[] = [];

  after(ms: number, run: () => void): Event {
    return this.at(this.nowMs + ms, run);
  }

  at(atMs: number, run: () => void, rank = 1): Event {
    this.#order += 1;
    const event = { atMs: Math.max(atMs, this.nowMs), rank, order: this.#order, run };
    this.#push(event);
    return event;
  }

  async runUntil(endMs: number): Promise<void> {
    for (;;) {
      const event = this.#heap[0];
      if (event === undefined || event.atMs > endMs) break;
      this.#pop();
      const { run } = event;
      if (run === null) continue;
      event.run = null;
      this.nowMs = event.atMs;
      run();
      await new Promise<void>(setImmediateOf);
    }
    this.nowMs = Math.max(this.nowMs, endMs);
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let i = heap.length;
    heap.push(event);
    while (i > 0) {
      const above = (i - 1) >> 1;
      const other = heap[above];
      if (other === undefined || !isBefore(event, other)) break;
      heap[i] = other;
      i = above;
    }
    heap[i] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let i = 0;
    for (;;) {
      let below = 2 * i + 1;
      const left = heap[below];
      if (left === undefined) break;
      let next = left;
      const right = heap[below + 1];
      if (right !== undefined && isBefore(right, left)) {
        next = right;
        below += 1;
      }
      if (!isBefore(next, last)) break;
      heap[i] = next;
      i = below;
    }
    heap[i] = last;
  }
}

function isBefore(a: Event, b: Event): boolean {
  if (a.atMs !== b.atMs) return a.atMs < b.atMs;
  return a.rank === b.rank ? a.order < b.order : a.rank < b.rank;
}

function setImmediateOf(resolve: () => void): void {
  setImmediate(resolve);
}
