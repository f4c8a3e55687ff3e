// Writes a snapshot of a table that is in use. The thread that owns the table only copies it, one shard at a time with
// the event loop in between. A thread that lives as long as this takes does the rest, and answers after each shard.
import { rm } from "node:fs/promises";
import { extname } from "node:path";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { asError, failureCode, ignoreError } from "../../core/failure.ts";
import { inPortions, type Rule } from "../../core/rules.ts";
import type { SnapshotResult } from "../../core/snapshot-result.ts";
import { BusyError, whenFree } from "../table/layout.ts";
import { temporaryPath } from "./file.ts";
import type { DescribedPolicy, SnapshotDescription } from "./format.ts";

export interface SnapshotSource {
  readonly shardCount: number;
  /** A copy of a shard as it is at one instant; null while another thread changes it. */
  copyShard(index: number): Int32Array | null;
  /** The table's time, now. */
  tableMs(): number;
  /** The instant is now. Concurrency is left out. */
  describe(): SnapshotDescription;
  /** In force. */
  rules(): readonly Rule[];
  /** The same policies. */
  slots(): readonly WrittenSlot[];
}

/** Longer only if the thread waits for the disk. */
const maxEndMs = 1000;

/** Replaces the file at `path`, or leaves it as it is. Never rejects. */
export async function writeSnapshot(path: string, source: SnapshotSource): Promise<SnapshotResult> {
  const temporary = temporaryPath(path);
  let thread: WriterThread | null = null;
  try {
    const before = source.describe();
    thread = new WriterThread({ path, temporary, slots: source.slots() });
    for (let index = 0; index < source.shardCount; index += 1) {
      const shard = await whenFree(() => copyOf(source, index));
      await thread.ask({ kind: "shard", shard, tableMs: source.tableMs() }, [shard.buffer as ArrayBuffer]);
      await setImmediate();
    }
    for (const rules of inPortions(source.rules())) {
      await thread.ask({ kind: "rules", rules });
      await setImmediate();
    }
    const description = unchanged(source.describe(), before);
    const { bytes, records } = await thread.ask({ kind: "finish", description });
    return { ok: true, bytes, records };
  } catch (error) {
    if (thread !== null) await Promise.race([thread.end(), sleep(maxEndMs, undefined, { ref: false })]);
    // What keeps it from being removed is what the failure is about.
    await rm(temporary, { force: true }).catch(ignoreError);
    return { ok: false, code: failureCode(asError(error)) };
  }
}

/** A thread locks a shard for microseconds, unless it died meanwhile and has not been missed yet. */
function copyOf(source: SnapshotSource, index: number): Int32Array {
  const shard = source.copyShard(index);
  if (shard === null) throw new BusyShardError("a shard of the table of counters is not free");
  return shard;
}

/** A reload in between may have given a slot to another policy: keys of both would look like its own. */
function unchanged(now: SnapshotDescription, before: SnapshotDescription): SnapshotDescription {
  const identity = ({ slot, name, key, rate }: DescribedPolicy): string => JSON.stringify([slot, name, rate.kind, key]);
  const known = new Set(before.policies.map(identity));
  return { ...now, policies: now.policies.filter((policy) => known.has(identity(policy))) };
}

class BusyShardError extends BusyError {
  readonly code = "BUSY";
}

// The thread that writes one snapshot, as the thread that owns the table sees it.

/** A thread that says nothing for this time waits for a disk that may never answer, and a drain must end. */
const maxSilenceMs = 10_000;

/** Node runs the sources as they are; a build has them as JavaScript. */
const program = new URL(`./writer-thread${extname(import.meta.url)}`, import.meta.url);

/** It holds a section of the file, the copies and the records of one of them. */
const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16 };

export class WriterThread {
  readonly #worker: Worker;
  readonly #silenceMs: number;
  #answer = Promise.withResolvers<FromWriter>();

  /** Another thread, and how long it may say nothing: for tests. */
  constructor(workerData: WriterData, { entry = program, silenceMs = maxSilenceMs } = {}) {
    this.#silenceMs = silenceMs;
    this.#worker = new Worker(entry, { workerData, resourceLimits, name: "snapshot", execArgv: [] });
    this.#worker.on("message", (message: FromWriter) => this.#answer.resolve(message));
    this.#worker.on("error", (error) => this.#fail(failureCode(asError(error))));
    this.#worker.on("exit", () => this.#fail("ended"));
  }

  /** Resolves with what is written so far. Rejects if the thread has failed. What is transferred must not be used any more. */
  async ask(message: ToWriter, transfer: readonly ArrayBuffer[] = []): Promise<WrittenSnapshot> {
    this.#worker.postMessage(message, transfer);
    const timer = setTimeout(() => this.#fail("TIMEOUT"), this.#silenceMs);
    const answer = await this.#answer.promise;
    clearTimeout(timer);
    if (answer.kind === "failed") throw new WriterError(answer.code);
    this.#answer = Promise.withResolvers();
    return answer;
  }

  /** Resolves when the thread has ended. One that waits for the disk cannot be ended before that. */
  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #fail(code: string): void {
    this.#answer.resolve({ kind: "failed", code });
  }
}

class WriterError extends Error {
  readonly code: string;

  constructor(code: string) {
    super("The snapshot was not written.");
    this.code = code;
  }
}

// What the thread that owns the table and the thread that writes a snapshot tell each other.

export interface WriterData {
  readonly path: string;
  /** A file beside it, which becomes it. */
  readonly temporary: string;
  /** The policies whose keys are written. */
  readonly slots: readonly WrittenSlot[];
}

interface WrittenSlot {
  readonly slot: number;
  /** Null: a policy of the calendar. What is older than the window is left out. */
  readonly windowMs: number | null;
}

export type ToWriter =
  /** `tableMs`: when it was copied. */
  | { readonly kind: "shard"; readonly shard: Int32Array; readonly tableMs: number }
  | { readonly kind: "rules"; readonly rules: readonly Rule[] }
  | { readonly kind: "finish"; readonly description: SnapshotDescription };

/** One for each message. */
export type FromWriter =
  | ({ readonly kind: "written" } & WrittenSnapshot)
  /** `code`: of the system, or the name of the error. */
  | { readonly kind: "failed"; readonly code: string };

interface WrittenSnapshot {
  readonly bytes: number;
  readonly records: number;
}
