// One thread that carries traffic, as the main thread sees it: asks it for things, keeps what it hands over, and notices when it
// has ended.
import { extname } from "node:path";
import { MessageChannel, Worker as NodeWorker } from "node:worker_threads";
import { ignoreError } from "../../core/failure.ts";
import type { LogDestination } from "../../telemetry/destination.ts";
import type { RecentBatch } from "../../telemetry/recent/thread-recent.ts";
import type { ThreadCells, ThreadReport } from "../../telemetry/telemetry.ts";
import { writeThreadLines } from "../../telemetry/thread-log.ts";
import type { KnownThread } from "../../telemetry/worker-figures.ts";
import {
  type Answer,
  type AnsweredTo,
  type AskedOf,
  errorOf,
  type HandedOver,
  type Request,
  type RequestName,
  startId,
  type ThreadStart,
  type Wanted,
} from "./messages.ts";
import { Pulse } from "./pulse.ts";

/** The sources run as they are, and the build has other names. */
export const threadEntry = new URL(`./thread${extname(import.meta.url)}`, import.meta.url);

/** How long to wait for the answer of a thread. Each request takes milliseconds. */
const answerTimeoutMs = 10_000;

/** A thread has not answered in time, and may still do what it was asked for. */
export class NoAnswerError extends Error {}

export interface WorkerOptions {
  readonly entry: URL;
  readonly destination: Pick<LogDestination, "write">;
  readonly onWanted: (worker: Worker, wanted: Wanted) => void;
  readonly onRecent: (batches: readonly RecentBatch[]) => void;
  /** Called once, as soon as the thread runs no more code. */
  readonly onGone: () => void;
  /** Called once, when everything that the thread had logged is written. `error`: what ended it, null for its exit. */
  readonly onExit: (worker: Worker, code: number, error: unknown) => void;
}

export class Worker implements KnownThread {
  readonly thread: number;
  /** Resolves when the thread can be asked. Rejects with what was wrong. */
  readonly started: Promise<void>;
  #isAlive = true;
  readonly #node: NodeWorker;
  readonly #exited: Promise<unknown>;
  readonly #pulse: Pulse;
  #handed: { readonly cells: ThreadCells; readonly report: ThreadReport } | null = null;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #lastId = startId;

  constructor(
    start: Omit<ThreadStart, "logPort">,
    { entry, destination, onWanted, onRecent, onGone, onExit }: WorkerOptions,
  ) {
    this.thread = start.thread;
    this.#pulse = new Pulse(start.pulses, start.thread);
    const log = new MessageChannel();
    const written = writeThreadLines(log.port2, destination);
    try {
      this.#node = new NodeWorker(entry, {
        name: `headgate ${start.thread}`,
        workerData: { ...start, logPort: log.port1 } satisfies ThreadStart,
        transferList: [log.port1],
        // Options of the command line such as --import are for the main thread.
        execArgv: [],
      });
    } catch (error) {
      log.port1.close();
      throw error;
    }
    let failure: unknown = null;
    this.#node.on("error", (error) => {
      failure = error;
    });
    this.#node.on("message", (message: Answer | Wanted | HandedOver) => {
      if ("report" in message) {
        this.#take(message);
        onRecent(message.recent);
      } else if ("wants" in message) onWanted(this, message);
      else this.#onAnswer(message);
    });
    this.#exited = new Promise((resolve) => {
      this.#node.once("exit", async (code) => {
        this.#isAlive = false;
        this.#pulse.forget();
        onGone();
        for (const { reject } of this.#waiting.values()) reject(new Error("the thread has ended", { cause: failure }));
        this.#waiting.clear();
        await written;
        resolve(code);
        onExit(this, code, failure);
      });
    });
    this.started = this.#answerTo(startId, null) as Promise<void>;
    this.started.catch(ignoreError);
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** The thread hands these over before it has started, and after each reload. */
  get cells(): ThreadCells {
    return this.#handedOver.cells;
  }

  get report(): ThreadReport {
    return this.#handedOver.report;
  }

  get activeSeconds(): number {
    return this.#node.performance.eventLoopUtilization().active / 1000;
  }

  /** When it last ran its timer, by the monotonic clock. */
  get lastMs(): number {
    return this.#pulse.lastMs;
  }

  /** Rejects if the thread fails, ends, or does not answer in time. */
  ask<Name extends RequestName>(
    name: Name,
    asked: AskedOf<Name>,
    timeoutMs = answerTimeoutMs,
  ): Promise<AnsweredTo<Name>> {
    if (!this.#isAlive) return Promise.reject(new Error("the thread has ended"));
    this.#lastId += 1;
    this.#node.postMessage({ id: this.#lastId, name, asked } satisfies Request);
    return this.#answerTo(this.#lastId, timeoutMs) as Promise<AnsweredTo<Name>>;
  }

  /** Ends the thread at once. */
  async terminate(): Promise<void> {
    await this.#node.terminate();
    await this.#exited;
  }

  /** `timeoutMs`: null for the start, which ends with the thread at the latest. */
  async #answerTo(id: number, timeoutMs: number | null): Promise<unknown> {
    const waiting = Promise.withResolvers<unknown>();
    this.#waiting.set(id, waiting);
    const late = () => waiting.reject(new NoAnswerError(`thread ${this.thread} has not answered in ${timeoutMs} ms`));
    const timer = timeoutMs === null ? undefined : setTimeout(late, timeoutMs);
    try {
      return await waiting.promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }

  get #handedOver() {
    if (this.#handed === null) throw new Error(`thread ${this.thread} has handed over nothing yet`);
    return this.#handed;
  }

  #take({ report, cells }: HandedOver): void {
    this.#pulse.isReportWaiting = false;
    this.#handed = { report, cells: cells ?? this.cells };
  }

  #onAnswer(answer: Answer): void {
    const waiting = this.#waiting.get(answer.id);
    if (answer.ok) waiting?.resolve(answer.answered);
    else waiting?.reject(errorOf(answer.failure));
  }
}

const windowMs = 60_000;
const firstDelayMs = 100;
const maxDelayMs = 30_000;

/**
 * When a thread that has ended is replaced. The first is replaced almost at once, and each one that ends within a
 * minute doubles the wait, up to half a minute: a fault that ends every thread costs at most a dozen starts a minute.
 */
export class Restarts {
  readonly #nowMs: () => number;
  #recentMs: readonly number[] = [];
  /** Since the start. */
  count = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** A thread has ended. Returns how long to wait before another one is started. */
  next(): number {
    const nowMs = this.#nowMs();
    this.count += 1;
    this.#recentMs = [...this.#recentMs.filter((atMs) => nowMs - atMs < windowMs), nowMs].slice(-20);
    return Math.min(maxDelayMs, firstDelayMs * 2 ** (this.#recentMs.length - 1));
  }
}
