// Threads that carry traffic, as one engine for the main thread: they share the ports, are asked all together, and a thread
// that ends is replaced while the others go on. A reload is prepared by all of them, then put into force by all or by none.
import { randomBytes } from "node:crypto";
import type { FileWatcher, Offer } from "../../config/files.ts";
import type { ListedTokens } from "../../core/authenticator.ts";
import type { ClientAddressRules } from "../../core/client-address.ts";
import { monotonicOffsetMs } from "../../core/clock.ts";
import { SharedConnectionCount } from "../../core/connection-count.ts";
import { ignoreError } from "../../core/failure.ts";
import type { Settings } from "../../core/settings.ts";
import type { PolicyLimiter } from "../../limits/limiter.ts";
import { countPeersIn } from "../../limits/peer-connections.ts";
import type { PolicySlot } from "../../limits/policies.ts";
import { createMainTelemetry, type MainTelemetry } from "../../telemetry/main-telemetry.ts";
import { StoreSightings } from "../../telemetry/store-sightings.ts";
import { WorkerReadings } from "../../telemetry/worker-figures.ts";
import type { Addresses, BrokenOff, Carrier, ListenSettings } from "../carrier.ts";
import { type ConfiguredFiles, closeFiles, type FilesContext, openConfiguredFiles } from "../configured-files.ts";
import { createLimiter, NotPreparedError } from "../counters.ts";
import type { EngineOptions } from "../engine.ts";
import { clientAddressRules } from "../runtimes.ts";
import type { ThreadStart } from "./messages.ts";
import { assertFree, listenAt } from "./shared-ports.ts";
import { threadEntry, Worker, type WorkerOptions } from "./worker.ts";
import { closeTimeoutMs, WorkerPool } from "./worker-pool.ts";

export interface WorkersOptions extends Omit<EngineOptions, "names" | "authenticator"> {
  /** Gets whole lines of the log. */
  readonly destination: WorkerOptions["destination"];
  /** What each thread runs. Default: what carries traffic. */
  readonly threadEntry?: URL;
}

/** Resolves when all threads are ready to listen. Rejects with a FilesError, or with what kept a thread from starting. */
export async function startWorkers(settings: Settings, files: FileWatcher, options: WorkersOptions): Promise<Carrier> {
  const { clock, log } = options;
  const base = { files, notices: { configuration: log, files: log }, clock, authenticator: undefined };
  const workers = new Workers(settings, base, files, await openConfiguredFiles(settings, base, null), options);
  try {
    await workers.start();
  } catch (error) {
    await workers.close();
    throw error;
  }
  return workers;
}

class Workers implements Carrier {
  settings: Settings;
  clientAddress: ClientAddressRules;
  readonly telemetry: MainTelemetry;
  readonly #options: WorkersOptions;
  readonly #base: FilesContext;
  readonly #files: FileWatcher;
  #opened: ConfiguredFiles;
  /** Decides nothing: chooses the slots of policies, and is for the metrics. */
  #limiter: PolicyLimiter;
  readonly #ticketSecret = randomBytes(32);
  readonly #connections = SharedConnectionCount.createMemory();
  readonly #storeSightings = StoreSightings.createMemory();
  readonly #readings = new WorkerReadings();
  readonly #pool: WorkerPool;
  /** Null before the first thread listens. */
  #listening: ListenSettings | null = null;
  #isAnnounced = false;
  /** Reloads and starts of threads come one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    settings: Settings,
    base: FilesContext,
    files: FileWatcher,
    opened: ConfiguredFiles,
    options: WorkersOptions,
  ) {
    this.settings = settings;
    this.#options = options;
    this.clientAddress = clientAddressRules(this.settings);
    this.#base = base;
    this.#files = files;
    this.#opened = opened;
    this.#pool = new WorkerPool({
      log: options.log,
      nowMs: options.clock.monotonicMs,
      open: (thread, logsWarnings) => this.#open(thread, logsWarnings),
      catchUp: (worker) => this.#serve(worker),
      alone: (work) => this.#alone(work),
    });
    this.#limiter = createLimiter(settings, options, null, { decides: false });
    countPeersIn(options.counters.table);
    this.telemetry = createMainTelemetry({
      ...options,
      routes: settings.routes,
      limiter: { stats: () => this.#limiter.stats() },
      counters: () => this.#limiter.counterFigures(),
      workers: this.#readings,
      hasStore: settings.counters.redis !== null,
      threads: () => ({ configured: this.settings.workers, ...this.#pool.figures }),
    });
  }

  get slots(): readonly PolicySlot[] {
    return this.#limiter.slots;
  }

  listedTokens(): ListedTokens | null {
    return this.#opened.authenticator.tokens()?.list ?? null;
  }

  start(): Promise<void> {
    return this.#pool.start(this.settings.workers);
  }

  async listen(settings: ListenSettings): Promise<Addresses> {
    await assertFree(settings);
    const [first, ...others] = this.#pool.alive;
    if (first === undefined) throw new Error("no thread has started");
    const addresses = await first.ask("listen", settings);
    this.#listening = listenAt(settings, addresses);
    this.#onServing(first);
    await Promise.all(others.map((worker) => this.#serve(worker)));
    return addresses;
  }

  announceStart(): void {
    this.#isAnnounced = true;
    void this.#pool.tellAll("announceStart", null);
  }

  replace(settings: Settings | null): ReturnType<Carrier["replace"]> {
    return this.#alone(async () => {
      const before = { settings: this.settings, files: this.#opened };
      const opened = settings === null ? this.#opened : await openConfiguredFiles(settings, this.#base, before);
      const offer = this.#files.offer();
      let limiter = this.#limiter;
      try {
        if (settings !== null) limiter = createLimiter(settings, this.#options, this.#limiter, { decides: false });
        if (settings !== null || offer.hasNews) await this.#prepare(settings, limiter, offer);
      } catch (error) {
        closeFiles(opened, this.#opened);
        limiter.replacedBy(this.#limiter);
        throw error;
      }
      // Before a thread counts with other windows, what is swept here must know them.
      limiter.comeIntoForce();
      const committed = this.#pool.tellAll("commit", null);
      this.settings = settings ?? this.settings;
      this.clientAddress = clientAddressRules(this.settings);
      this.#opened = opened;
      this.#limiter.replacedBy(limiter);
      this.#limiter = limiter;
      const { level } = this.settings.log;
      if (level !== before.settings.log.level) this.#options.log.level = level;
      const changes = this.#files.take(offer);
      closeFiles(before.files, opened);
      await committed;
      return changes;
    });
  }

  async health(): ReturnType<Carrier["health"]> {
    await this.#readings.refresh();
    const { telemetry } = this;
    const isServing = this.#pool.serving.size > 0;
    return { isServing, upstream: telemetry.upstreamHealth(), store: telemetry.storeHealth() };
  }

  async isAlive(): Promise<boolean> {
    const answers = [...this.#pool.serving].map((worker) => worker.ask("ping", null, 1_000));
    return Promise.any(answers).then(
      () => true,
      // Without a thread, others are started.
      () => answers.length === 0,
    );
  }

  announceEnd(): void {
    this.#pool.end();
    void this.#pool.tellAll("announceEnd", null);
  }

  async drain(timeoutMs: number): Promise<BrokenOff> {
    const drained = this.#pool.alive.map((worker) =>
      worker.ask("drain", { timeoutMs }, timeoutMs + closeTimeoutMs).catch(() => ({ requests: 0, calls: 0 })),
    );
    const sum = (a: BrokenOff, b: BrokenOff) => ({ requests: a.requests + b.requests, calls: a.calls + b.calls });
    return (await Promise.all(drained)).reduce(sum, { requests: 0, calls: 0 });
  }

  /** Leaves no thread behind. */
  async close(): Promise<void> {
    await this.#pool.close();
    closeFiles(this.#opened, null);
    this.telemetry.close();
  }

  #open(thread: number, logsWarnings: boolean): Worker {
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
      slots: this.#limiter.slots,
      settings: this.settings,
      contents: this.#files.contents(),
      connections: this.#connections,
      storeSightings: this.#storeSightings,
      ticketSecret: this.#ticketSecret,
      clockOffsetMs: monotonicOffsetMs(),
    };
    return new Worker(start, {
      entry,
      destination,
      onGone: () => {
        SharedConnectionCount.forget(this.#connections, thread);
        StoreSightings.forget(this.#storeSightings, thread);
        this.#options.counters.table.maintenance.recover(thread);
      },
      onExit: (worker, code, error) => {
        this.#readings.remove(thread);
        this.#pool.onExit(worker, code, error);
      },
    });
  }

  async #serve(worker: Worker): Promise<void> {
    if (this.#listening !== null) await worker.ask("listen", this.#listening);
    if (this.#isAnnounced) await worker.ask("announceStart", null);
    this.#onServing(worker);
  }

  #onServing(worker: Worker): void {
    if (!worker.isAlive) return;
    this.#pool.serving.add(worker);
    this.#readings.add(worker.thread, (wanted) => worker.ask("figures", { wanted, stale: this.#files.stale() }));
  }

  /** Rejects with a NotPreparedError: then nothing has changed. */
  async #prepare(settings: Settings | null, { slots }: PolicyLimiter, { contents }: Offer): Promise<void> {
    const workers = [...this.#pool.serving];
    const prepared = workers.map((worker, i) =>
      worker.ask("prepare", { settings, slots, contents, logsWarnings: i === 0 }),
    );
    const failures = (await Promise.allSettled(prepared)).filter((result) => result.status === "rejected");
    if (failures.length === 0) return;
    void this.#pool.tellAll("drop", null);
    throw new NotPreparedError("a worker could not prepare the configuration", { cause: failures[0]?.reason });
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(ignoreError);
    return done;
  }
}
