// The state in which each thread of a process sees the shards of the store, in shared memory, so that a change that all
// threads see is logged once. If threads number the shards differently, a change may be logged twice, or not at all.

import { maxThreads } from "../core/settings.ts";
import { badnessOf, type StoreState } from "../core/store-link.ts";

/** Shards with higher numbers share their places with others. */
const places = 64;
const rows = maxThreads + 1;
/** After a row for each thread: what was logged last, and the thread that says what the server is. */
const loggedRow = rows;
const reporterRow = rows + 1;

export class StoreSightings {
  readonly #cells: Uint8Array;
  readonly #thread: number;

  /** `thread`: from 0 to `maxThreads`, in its memory once. */
  constructor(memory: SharedArrayBuffer, thread: number) {
    this.#cells = new Uint8Array(memory);
    this.#thread = thread;
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer((rows + 2) * places);
  }

  /** The thread has ended. */
  static forget(memory: SharedArrayBuffer, thread: number): void {
    const cells = new Uint8Array(memory);
    for (let place = 0; place < places; place += 1) {
      Atomics.store(cells, at(thread, place), 0);
      Atomics.compareExchange(cells, at(reporterRow, place), thread + 1, 0);
    }
  }

  /**
   * This thread sees the shard in the state. Returns whether this is news for the process: it is the first thread that sees
   * a worse state, or the last that sees a better one. Reaching the store at the start is no news.
   */
  isNews(shard: number, state: StoreState): boolean {
    const place = shard % places;
    const seen = codeOf(state);
    const own = at(this.#thread, place);
    // The start of a thread lasts until the store is up for it.
    if (state === "returned" && Atomics.load(this.#cells, own) === 0) return false;
    Atomics.store(this.#cells, own, seen);
    let worst = this.#worst(place);
    const before = Atomics.exchange(this.#cells, at(loggedRow, place), worst);
    // Another thread may have seen a change after this one has looked.
    for (let again = this.#worst(place); again !== worst; again = this.#worst(place)) {
      worst = again;
      Atomics.store(this.#cells, at(loggedRow, place), worst);
    }
    return worst === seen && before !== worst && !(before === 0 && state === "up");
  }

  /** The shard no longer exists. */
  gone(shard: number): void {
    Atomics.store(this.#cells, at(this.#thread, shard % places), 0);
  }

  /** Whether this thread is the one that says what the shard's server is. */
  isReporter(shard: number): boolean {
    const own = this.#thread + 1;
    const before = Atomics.compareExchange(this.#cells, at(reporterRow, shard % places), 0, own);
    return before === 0 || before === own;
  }

  #worst(place: number): number {
    let worst = 0;
    for (let row = 0; row < rows; row += 1) worst = Math.max(worst, Atomics.load(this.#cells, at(row, place)));
    return worst;
  }
}

function at(row: number, place: number): number {
  return row * places + place;
}

/** 0 stands for a thread that has seen nothing. */
function codeOf(state: StoreState): number {
  return 1 + badnessOf(state);
}
