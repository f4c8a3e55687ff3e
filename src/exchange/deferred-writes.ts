// Defers writes to the end of a batch of events. The event loop takes what is ready on all sockets from the system in one
// batch, and handles one socket after the other. If each is written to at once, a peer that is woken by one write often
// sleeps again before the next one, and reading and writing push each other's code out of the processor's caches. While
// batches are small, nothing is deferred, because the delay would cost more than it saves. Requests and responses are counted
// separately: the connections of clients have one instance, and those to each upstream have one.

export interface DeferredWriter {
  /** Writes what was deferred. The socket may be closed by now. */
  writeDeferred(): void;
}

/** A batch is large from so many writes on, and small again at `fewWrites`. In between nothing changes. */
export const manyWrites = 8;
const fewWrites = 4;

/** While batches are small, only one batch in so many writes is counted, because a `setImmediate` costs. */
export const writesBetweenCounts = 64;

export class DeferredWrites {
  /** In the order in which they were deferred. */
  #writers: DeferredWriter[] = [];
  /** Is emptied, to be used for the next batch. */
  #written: DeferredWriter[] = [];
  #areBatchesLarge = false;
  #isCounting = false;
  /** In the current batch while it is counted, otherwise since the last one that was. */
  #writes = 0;

  /** Lets the writer write now or at the end of the batch. */
  defer(writer: DeferredWriter): void {
    this.#writes += 1;
    if (!this.#areBatchesLarge) {
      if (this.#writes >= writesBetweenCounts) this.#count();
      writer.writeDeferred();
      return;
    }
    this.#count();
    this.#writers.push(writer);
  }

  /** Counts the writes of the current batch from this one on. */
  #count(): void {
    if (this.#isCounting) return;
    this.#isCounting = true;
    this.#writes = 1;
    setImmediate(this.#onBatchEnd);
  }

  readonly #onBatchEnd = (): void => {
    this.#areBatchesLarge = this.#writes > (this.#areBatchesLarge ? fewWrites : manyWrites - 1);
    this.#isCounting = false;
    this.#writes = 0;
    // What is deferred meanwhile belongs to the next batch.
    const writers = this.#writers;
    this.#writers = this.#written;
    for (const writer of writers) writer.writeDeferred();
    writers.length = 0;
    this.#written = writers;
  };
}
