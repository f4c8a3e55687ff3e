// The threads that carry traffic: starts them, replaces those that end, and asks all of them.
import { ignoreError } from "../../core/failure.ts";
import { maxThreads } from "../../core/thread-share.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { ThreadFigures } from "../../telemetry/scraped-metrics.ts";
import type { RequestName, Requests } from "./messages.ts";
import { Restarts } from "./restarts.ts";
import { NoAnswerError, type Worker } from "./worker.ts";

interface WorkerPoolOptions {
  readonly log: Logger;
  readonly nowMs: () => number;
  /** Starts a thread. Its end has to be told to `onExit`. */
  readonly open: (thread: number, logsWarnings: boolean) => Worker;
  /** Makes a thread that was started later do what the others do. */
  readonly catchUp: (worker: Worker) => Promise<void>;
  /** Runs nothing else meanwhile that needs all threads. */
  readonly alone: <T>(work: () => Promise<T>) => Promise<T>;
}

/** How long a thread may take for its last lines of the log. */
export const closeTimeoutMs = 2_000;

export class WorkerPool {
  /** Those that accept connections. */
  readonly serving = new Set<Worker>();
  readonly #options: WorkerPoolOptions;
  readonly #restarts: Restarts;
  /** By the number of the thread: those that have not ended. */
  readonly #alive = new Map<number, Worker>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #lastThread = 0;
  /** False: the end of a thread is the end of the start. */
  #hasStarted = false;
  #isEnding = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#restarts = new Restarts(options.nowMs);
  }

  get alive(): readonly Worker[] {
    return [...this.#alive.values()];
  }

  get figures(): Omit<ThreadFigures, "configured"> {
    return { serving: this.serving.size, restarts: this.#restarts.count };
  }

  async start(count: number): Promise<void> {
    const workers = Array.from({ length: count }, (_, i) => this.#open(i === 0));
    await Promise.all(workers.map(({ started }) => started));
    this.#hasStarted = true;
  }

  /** From now on a thread that ends is not replaced. */
  end(): void {
    this.#isEnding = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }

  /** Leaves no thread behind. */
  async close(): Promise<void> {
    this.end();
    await Promise.all(
      this.alive.map(async (worker) => {
        if (this.serving.has(worker)) await worker.ask("close", null, closeTimeoutMs).catch(ignoreError);
        await worker.terminate();
      }),
    );
  }

  /** Asks all that serve. One that fails is ended, and so replaced; one that does not answer may still do it. */
  async tellAll<Name extends RequestName>(name: Name, asked: Requests[Name]["asked"]): Promise<void> {
    const tell = async (worker: Worker): Promise<void> => {
      try {
        await worker.ask(name, asked);
      } catch (error) {
        if (error instanceof NoAnswerError || !worker.isAlive) return;
        this.#options.log.error({ worker: worker.thread, err: error }, "internal error");
        await worker.terminate();
      }
    };
    await Promise.all([...this.serving].map(tell));
  }

  /** A thread has ended. */
  onExit(worker: Worker, code: number, error: unknown): void {
    const { thread } = worker;
    this.#alive.delete(thread);
    this.serving.delete(worker);
    if (this.#isEnding || !this.#hasStarted) return;
    const { log, alone } = this.#options;
    const delayMs = this.#restarts.next();
    log.error({ worker: thread, code, err: error ?? undefined, delayMs }, "worker ended, another one is started");
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void alone(() => this.#startAnother());
    }, delayMs);
    this.#timers.add(timer);
  }

  async #startAnother(): Promise<void> {
    if (this.#isEnding) return;
    const { log, catchUp } = this.#options;
    const worker = this.#open(false);
    try {
      await worker.started;
      await catchUp(worker);
      log.info({ worker: worker.thread }, "worker started");
    } catch (error) {
      if (worker.isAlive) log.error({ worker: worker.thread, err: error }, "worker not started");
      // Its exit starts another one.
      await worker.terminate();
    }
  }

  #open(logsWarnings: boolean): Worker {
    const thread = this.#freeNumber();
    const worker = this.#options.open(thread, logsWarnings);
    this.#alive.set(thread, worker);
    return worker;
  }

  /** A number that was used last is used again last. */
  #freeNumber(): number {
    do this.#lastThread = (this.#lastThread % maxThreads) + 1;
    while (this.#alive.has(this.#lastThread));
    return this.#lastThread;
  }
}
