// Threads that carry traffic beside the main thread: they share the ports, are told all together, and a thread that ends is
// replaced while the others go on.
import { randomBytes } from "node:crypto";
import type { FileWatcher } from "../../config/files.ts";
import { monotonicOffsetMs } from "../../core/clock.ts";
import { ignoreError } from "../../core/failure.ts";
import { InTurn } from "../../core/in-turn.ts";
import type { PolicyStats } from "../../core/limiter.ts";
import { inPortions, type Rule, type RuleChange } from "../../core/rules.ts";
import type { RulesInForce } from "../../core/rules-in-force.ts";
import { maxThreads, type Settings } from "../../core/settings.ts";
import type { AddressState } from "../../core/upstream.ts";
import type { ForgivenNotice } from "../../limits/store/shared-rules.ts";
import { SharedConnectionCount } from "../../listener/connection-table.ts";
import { createErrorLog } from "../../telemetry/log.ts";
import { createMainTelemetry, type MainTelemetry } from "../../telemetry/main-telemetry.ts";
import { HistoryRow } from "../../telemetry/recent/history.ts";
import type { RecentThreads } from "../../telemetry/recent/recent.ts";
import type { RecentBatch } from "../../telemetry/recent/thread-recent.ts";
import type { ThreadFigures } from "../../telemetry/scraped-metrics.ts";
import { StoreSightings } from "../../telemetry/store-log.ts";
import { WorkerReadings } from "../../telemetry/worker-figures.ts";
import { certificateInUse } from "../configured-files.ts";
import type { EngineOptions } from "../engine.ts";
import { chosenOf, NotPreparedError } from "../open-counters.ts";
import type { Addresses, BrokenOff, ListenSettings } from "../open-listeners.ts";
import { openJudgedTable, type SettingsOnTrial } from "../reload-trials.ts";
import { type MainThread, openMainThread } from "./main-thread.ts";
import type { AskedOf, RequestName, ThreadStart, Wanted } from "./messages.ts";
import { Pulse, pulseMs } from "./pulse.ts";
import { assertFree, listenAt } from "./shared-ports.ts";
import { NoAnswerError, Restarts, threadEntry, Worker, type WorkerOptions } from "./worker.ts";

export interface ThreadPoolOptions extends EngineOptions {
  /** Gets whole lines of the log. */
  readonly destination: WorkerOptions["destination"];
  /** Those that hold, for a thread that starts. */
  readonly rules: { list(): readonly Rule[]; get(id: string): Rule | null };
  readonly runtimeRules: RulesInForce;
  /** What each thread runs. Default: what carries traffic. */
  readonly threadEntry?: URL;
}

/** Each thread has at most one report waiting, and one more after a reload: this bound is for a bug. */
const maxRecentBatches = 4 * maxThreads;

/** A thread that has not run its timer for so long cannot answer requests either. */
const stuckMs = pulseMs + 1_000;

/** The main thread reads the counts of connections and has none. Threads that carry traffic count from 1. */
const mainConnectionRow = 0;

/** How long a thread may take for its last lines of the log. */
const closeTimeoutMs = 2_000;

/** Resolves when all threads are ready to listen. Rejects with a FilesError, or with what kept a thread from starting. */
export async function startThreads(settings: Settings, files: FileWatcher, options: ThreadPoolOptions) {
  const main = await openMainThread(settings, files, options);
  const threads = new ThreadPool(main, files, options);
  try {
    await threads.start();
  } catch (error) {
    await threads.close();
    throw error;
  }
  return { main, threads };
}

/** What is not described here is as in Engine, for all threads. */
export class ThreadPool {
  readonly telemetry: MainTelemetry;
  readonly recent: RecentThreads = {
    memory: HistoryRow.createMemory(),
    take: () => this.#recent.splice(0),
  };
  /** What threads have handed over of the last second. */
  readonly #recent: RecentBatch[] = [];
  /** Reloads and starts of threads come one after the other. */
  readonly turn = new InTurn();
  readonly #main: MainThread;
  readonly #options: ThreadPoolOptions;
  readonly #files: FileWatcher;
  /** Null: what is in force is not on trial. */
  #onTrial: SettingsOnTrial | null = null;
  readonly #ticketSecret = randomBytes(32);
  readonly #connections = SharedConnectionCount.createMemory();
  readonly #storeSightings = StoreSightings.createMemory();
  readonly #pulses = Pulse.createMemory();
  readonly #readings = new WorkerReadings();
  readonly #restarts: Restarts;
  /** By the number of the thread: those that have not ended. */
  readonly #alive = new Map<number, Worker>();
  /** The position in the log of gateways up to which the table has forgotten what was forgiven. */
  #forgivenUntil = 0;
  /** The threads that are told of each change of the rules. */
  readonly #ruled = new Set<Worker>();
  /** Those that accept connections. */
  readonly #serving = new Set<Worker>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #lastThread = 0;
  /** False: the end of a thread is the end of the start. */
  #hasStarted = false;
  #isEnding = false;
  /** Null before the first thread listens. */
  #listening: ListenSettings | null = null;
  #isAnnounced = false;

  /** Use `startThreads`. */
  constructor(main: MainThread, files: FileWatcher, options: ThreadPoolOptions) {
    this.#main = main;
    this.#files = files;
    this.#options = options;
    this.#restarts = new Restarts(options.clock.monotonicMs);
    const { settings } = main.configuration;
    this.telemetry = createMainTelemetry({
      ...options,
      routes: settings.routes,
      limiter: { stats: () => this.policyStats() },
      counters: () => main.configuration.limiter.counterFigures(),
      workers: this.#readings,
      hasStore: settings.counters.redis !== null,
      sharedRules: options.sharedRules ?? null,
      clientConnections: () => new SharedConnectionCount(this.#connections, mainConnectionRow).total,
      tokens: () => main.configuration.files.authenticator.tokens(),
      certificate: () => certificateInUse(main.configuration.files),
      threads: () => this.figures,
    });
  }

  get figures(): ThreadFigures {
    return {
      configured: this.#main.configuration.settings.workers,
      serving: this.#serving.size,
      restarts: this.#restarts.count,
    };
  }

  addressStates(): readonly AddressState[] {
    return this.#readings.addressStates();
  }

  policyStats(): readonly PolicyStats[] {
    const stats = this.#main.configuration.limiter.stats();
    return stats.map(({ policy }) => ({ policy, outcomes: this.#readings.outcomes(policy.name) }));
  }

  /** Whether a thread still responds, as far as the main thread can tell. */
  isAlive(): boolean {
    const sinceMs = this.#options.clock.monotonicMs() - stuckMs;
    const workers = [...this.#serving];
    // Without a thread, others are started.
    return workers.length === 0 || workers.some(({ lastMs }) => lastMs >= sinceMs);
  }

  async start(): Promise<void> {
    const workers = Array.from({ length: this.#main.configuration.settings.workers }, (_, i) => this.#open(i === 0));
    await Promise.all(workers.map(({ started }) => started));
    for (const worker of workers) this.#ruled.add(worker);
    this.#hasStarted = true;
  }

  async listen(settings: ListenSettings): Promise<Addresses> {
    await assertFree(settings);
    const [first, ...others] = this.#alive.values();
    if (first === undefined) throw new Error("no thread has started");
    const addresses = await first.ask("listen", settings);
    this.#listening = listenAt(settings, addresses);
    this.#onServing(first);
    await Promise.all(others.map((worker) => this.#serve(worker)));
    return addresses;
  }

  announceStart(): void {
    this.#isAnnounced = true;
    void this.#tellAll("announceStart", null);
  }

  /** `settings`: null for those in force, with other contents of files. Rejects with a NotPreparedError. */
  async prepare(wanted: Omit<AskedOf<"prepare">, "logsWarnings">): Promise<void> {
    const prepared = Array.from(this.#serving, (worker, i) =>
      worker.ask("prepare", { ...wanted, logsWarnings: i === 0 }),
    );
    const failures = (await Promise.allSettled(prepared)).filter((result) => result.status === "rejected");
    if (failures.length === 0) return;
    void this.#tellAll("drop", null);
    throw new NotPreparedError("a worker could not prepare the configuration", { cause: failures[0]?.reason });
  }

  /** The messages are posted at once. Resolves when all threads have put it into force. */
  commit({ settings, onTrial }: Pick<AskedOf<"prepare">, "settings" | "onTrial">): Promise<void> {
    if (settings !== null) this.#onTrial = onTrial;
    return this.#tellAll("commit", null);
  }

  /** What is in force is not on trial any more. */
  endTrial(): Promise<void> {
    this.#onTrial = null;
    return this.#tellAll("endTrial", null);
  }

  changeRules(change: RuleChange): Promise<void> {
    return this.#tellAll("changeRules", change, this.#ruled);
  }

  /** Has each thread forget what it holds, after the table. */
  async forgive(forgiven: readonly ForgivenNotice[], logPosition: number): Promise<void> {
    this.#forgivenUntil = logPosition;
    await this.#tellAll("forgive", { forgiven, logPosition }, new Set(this.#alive.values()));
  }

  announceEnd(): void {
    this.#end();
    void this.#tellAll("announceEnd", null);
  }

  async drain(timeoutMs: number): Promise<BrokenOff> {
    const drained = Array.from(this.#alive.values(), (worker) =>
      worker.ask("drain", { timeoutMs }, timeoutMs + closeTimeoutMs).catch(() => ({ requests: 0, calls: 0 })),
    );
    const sum = (a: BrokenOff, b: BrokenOff) => ({ requests: a.requests + b.requests, calls: a.calls + b.calls });
    return (await Promise.all(drained)).reduce(sum, { requests: 0, calls: 0 });
  }

  /** Leaves no thread behind. */
  async close(): Promise<void> {
    this.#end();
    await Promise.all(
      Array.from(this.#alive.values(), async (worker) => {
        if (this.#serving.has(worker)) await worker.ask("close", null, closeTimeoutMs).catch(ignoreError);
        await worker.terminate();
      }),
    );
    this.#main.close();
    this.telemetry.close();
  }

  /** From now on a thread that ends is not replaced. */
  #end(): void {
    this.#isEnding = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }

  /** Asks all that serve. One that fails is ended, and so replaced; one that does not answer may still do it. */
  async #tellAll<Name extends RequestName>(
    name: Name,
    asked: AskedOf<Name>,
    told: ReadonlySet<Worker> = this.#serving,
  ): Promise<void> {
    const tell = async (worker: Worker): Promise<void> => {
      try {
        await worker.ask(name, asked);
      } catch (error) {
        if (error instanceof NoAnswerError || !worker.isAlive) return;
        this.#options.log.error({ worker: worker.thread, err: error }, "internal error");
        await worker.terminate();
      }
    };
    await Promise.all([...told].map(tell));
  }

  /** A thread has ended. */
  #onExit(worker: Worker, code: number, error: unknown): void {
    const { thread } = worker;
    this.#readings.remove(thread);
    this.#alive.delete(thread);
    this.#serving.delete(worker);
    this.#ruled.delete(worker);
    if (this.#isEnding || !this.#hasStarted) return;
    const delayMs = this.#startLater();
    this.#options.log.error(
      { worker: thread, code, err: error ?? undefined, delayMs },
      "worker ended, another one is started",
    );
  }

  /** Starts a thread in place of one that has ended. Returns in how many milliseconds. */
  #startLater(): number {
    const delayMs = this.#restarts.next();
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void this.turn.do(() => this.#startAnother());
    }, delayMs);
    this.#timers.add(timer);
    return delayMs;
  }

  async #startAnother(): Promise<void> {
    if (this.#isEnding) return;
    const { log } = this.#options;
    let worker: Worker | null = null;
    try {
      worker = this.#open(false);
      await worker.started;
      await this.#tellRules(worker);
      // The threads that serve are told of the end. This one opens no port, and keeps none open.
      if (!this.#isEnding) await this.#serve(worker);
      if (this.#isEnding) return await worker.terminate();
      log.info({ worker: worker.thread }, "worker started");
    } catch (error) {
      if (worker === null || worker.isAlive) log.error({ worker: worker?.thread, err: error }, "worker not started");
      if (worker === null) this.#startLater();
      // Its exit starts another one.
      else await worker.terminate();
    }
  }

  #open(logsWarnings: boolean): Worker {
    const thread = this.#freeNumber();
    const {
      version,
      nodeVersion,
      http2LingerMs = null,
      sharedReads = true,
      destination,
      threadEntry: entry = threadEntry,
    } = this.#options;
    const { memory, placeSecret, keySecret, owner } = this.#options.counters;
    const start: Omit<ThreadStart, "logPort"> = {
      ...{ thread, logsWarnings, version, nodeVersion, http2LingerMs, sharedReads },
      counters: { memory, placeSecret, keySecret, owner },
      chosen: chosenOf(this.#main.configuration.limiter),
      onTrial: this.#onTrial,
      settings: this.#main.configuration.settings,
      contents: this.#files.contents(),
      connections: this.#connections,
      storeSightings: this.#storeSightings,
      history: this.recent.memory,
      pulses: this.#pulses,
      forgivenUntil: this.#forgivenUntil,
      ticketSecret: this.#ticketSecret,
      clockOffsetMs: monotonicOffsetMs(),
    };
    const worker = new Worker(start, {
      entry,
      destination,
      onWanted: (asking, wanted) => void this.#readForgiven(asking, wanted),
      onRecent: (batches) => {
        if (this.#recent.length < maxRecentBatches) this.#recent.push(...batches);
      },
      onGone: () => {
        SharedConnectionCount.forget(this.#connections, thread);
        StoreSightings.forget(this.#storeSightings, thread);
        HistoryRow.forget(this.recent.memory, thread);
        const { counters } = this.#options;
        counters.table.maintenance.recover(thread);
        openJudgedTable(this.#onTrial, counters, this.#main.configuration.settings)?.maintenance.recover(thread);
      },
      onExit: (ended, code, error) => this.#onExit(ended, code, error),
    });
    this.#alive.set(thread, worker);
    return worker;
  }

  async #readForgiven(worker: Worker, { id }: Wanted): Promise<void> {
    try {
      await this.#options.readForgiven?.();
    } catch (error) {
      createErrorLog(this.#options.log)(error);
    }
    // Without an answer, the thread does not wait for long.
    await worker.ask("forgivenRead", id).catch(ignoreError);
  }

  /** A number that was used last is used again last. */
  #freeNumber(): number {
    do this.#lastThread = (this.#lastThread % maxThreads) + 1;
    while (this.#alive.has(this.#lastThread));
    return this.#lastThread;
  }

  async #serve(worker: Worker): Promise<void> {
    if (this.#listening !== null) await worker.ask("listen", this.#listening);
    if (this.#isAnnounced) await worker.ask("announceStart", null);
    this.#onServing(worker);
  }

  /** What changes meanwhile is told too, after the part that has been sent. */
  async #tellRules(worker: Worker): Promise<void> {
    this.#ruled.add(worker);
    const { rules } = this.#options;
    for (const portion of inPortions(rules.list())) {
      const set = portion.flatMap(({ id }) => rules.get(id) ?? []);
      await worker.ask("changeRules", { set, removed: [] });
    }
  }

  #onServing(worker: Worker): void {
    if (!worker.isAlive) return;
    this.#serving.add(worker);
    this.#readings.add(worker);
  }
}
