// The thread that writes one snapshot, as the thread that owns the table sees it.
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import { asError, failureCode } from "../../core/failure.ts";
import type { SnapshotDescription } from "./description.ts";
import type { FromWriter, ToWriter, WriterData, WrittenSnapshot } from "./thread-messages.ts";

/** Copies that wait for the thread; a shard has at most 1 MiB. */
const maxWaiting = 4;

/** A thread that says nothing for this time waits for a disk that may never answer, and a drain must end. */
const maxSilenceMs = 10_000;

/** Node runs the sources as they are; a build has them as JavaScript. */
const program = new URL(`./writer-thread${extname(import.meta.url)}`, import.meta.url);

/** It holds a section of the file, the copies and the records of one of them. */
const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16 };

export class WriterThread {
  readonly #worker: Worker;
  readonly #silenceMs: number;
  #waiting = 0;
  #end: Exclude<FromWriter, { kind: "taken" }> | null = null;
  #changed = Promise.withResolvers<void>();

  /** Another thread, and how long it may say nothing: for tests. */
  constructor(workerData: WriterData, { entry = program, silenceMs = maxSilenceMs } = {}) {
    this.#silenceMs = silenceMs;
    this.#worker = new Worker(entry, { workerData, resourceLimits, name: "snapshot", execArgv: [] });
    this.#worker.on("message", (message: FromWriter) => {
      if (message.kind === "taken") this.#waiting -= 1;
      else this.#end ??= message;
      this.#wake();
    });
    this.#worker.on("error", (error) => this.#fail(failureCode(asError(error))));
    this.#worker.on("exit", () => this.#fail("ended"));
  }

  /** Resolves when there is room for another one. The copy must not be used any more. Rejects if the thread has failed. */
  async take(shard: Int32Array, tableMs: number): Promise<void> {
    this.#waiting += 1;
    this.#post({ kind: "shard", shard, tableMs }, [shard.buffer as ArrayBuffer]);
    while (this.#waiting >= maxWaiting && this.#end === null) await this.#change();
    if (this.#end?.kind === "failed") throw new WriterError(this.#end.code);
  }

  /** Rejects if the file was not replaced. */
  async finish(description: SnapshotDescription): Promise<WrittenSnapshot> {
    this.#post({ kind: "finish", description });
    while (this.#end === null) await this.#change();
    if (this.#end.kind === "failed") throw new WriterError(this.#end.code);
    const { bytes, records } = this.#end;
    return { bytes, records };
  }

  /** Resolves when the thread has ended. One that waits for the disk cannot be ended before that. */
  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  async #change(): Promise<void> {
    const timer = setTimeout(() => this.#fail("TIMEOUT"), this.#silenceMs);
    await this.#changed.promise;
    clearTimeout(timer);
  }

  #post(message: ToWriter, transfer: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  #fail(code: string): void {
    this.#end ??= { kind: "failed", code };
    this.#wake();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

class WriterError extends Error {
  readonly code: string;

  constructor(code: string) {
    super("The snapshot was not written.");
    this.code = code;
  }
}
