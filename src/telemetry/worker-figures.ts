// Asks the worker threads for their figures, and merges them with the main thread's. No counter goes back: what a thread
// had counted when it was last read stays in the sums after it has ended. Its gauges are removed.
import { badnessOf, type StoreHealth } from "../core/store-link.ts";
import type { UpstreamHealth } from "../core/upstream.ts";
import { type FamilyFigures, type FamilyLookup, mergeFamilies, mergeFamily } from "./figures.ts";
import { healthOf, unusedStore } from "./shared-store-metrics.ts";
import {
  type AddressStates,
  type FiguresWanted,
  neverSeen,
  ratioOf,
  type WorkerFacts,
  type WorkerFigures,
} from "./telemetry.ts";

interface WorkerReadingsOptions {
  /** After this time the last known figures of a thread are used. */
  readonly timeoutMs?: number;
  /** How old facts may be. */
  readonly factsMaxAgeMs?: number;
}

export class WorkerReadings {
  readonly #timeoutMs: number;
  readonly #factsMaxAgeMs: number;
  readonly #successions: Succession[] = [];
  #areFactsNew = false;

  constructor({ timeoutMs = 1_000, factsMaxAgeMs = 100 }: WorkerReadingsOptions = {}) {
    this.#timeoutMs = timeoutMs;
    this.#factsMaxAgeMs = factsMaxAgeMs;
  }

  /**
   * `ask` asks the thread for `Telemetry.figures(wanted)`. It is called again with the same `wanted` only when the promise
   * of the last such call is settled, and may reject.
   */
  add(thread: number, ask: AskWorker): void {
    let succession = this.#successions.find(({ isFree }) => isFree);
    if (succession === undefined) {
      succession = new Succession();
      this.#successions.push(succession);
    }
    succession.take({ thread, ask });
  }

  /** The thread is gone. */
  remove(thread: number): void {
    for (const succession of this.#successions) if (succession.thread === thread) succession.leave();
  }

  /** Reads all threads, then `own`, and merges them one family at a time. */
  async *merged(own: AsyncIterable<FamilyFigures>): AsyncGenerator<FamilyFigures> {
    await this.#read("all");
    const families = new Map<string, FamilyFigures>();
    for await (const family of own) families.set(family.name, family);
    yield* mergeFamilies([families, ...this.#successions]);
  }

  /** Reads the facts again, unless they are new. Frequent health checks cost the threads nothing. */
  async refresh(): Promise<void> {
    if (!this.#areFactsNew) await this.#read("facts");
  }

  /** As last read: the result of the last attempt of all threads. */
  upstreamHealth(): UpstreamHealth {
    const seen = this.#facts().map(({ upstream }) => upstream);
    const last = seen.reduce((a, b) => (b.atMs > a.atMs ? b : a), neverSeen);
    return { state: last.state, reason: last.reason };
  }

  /** As last read: of the thread that can use the fewest addresses. */
  addresses(): AddressStates {
    const [first = { available: 0, ejected: 0 }, ...others] = this.#facts().map(({ addresses }) => addresses);
    return others.reduce((a, b) => (b.available < a.available ? b : a), first);
  }

  /** As last read: the worst state in which a thread sees the store, and the most gateways that a thread sees. */
  storeHealth(): StoreHealth {
    const seen = this.#facts().flatMap(({ store }) => store ?? []);
    const worst = seen.reduce((a, b) => (isWorse(b, a) ? b : a), seen[0] ?? healthOf(unusedStore));
    return { ...worst, replicas: Math.max(worst.replicas, ...seen.map(({ replicas }) => replicas)) };
  }

  /** As last read: the share that a client has of the requests of all threads. */
  busiestClientRatio(): number {
    return ratioOf(this.#facts().map(({ busiest }) => busiest));
  }

  /**
   * As last read: running totals of the time in which the event loops were not idle. A worker that replaces another
   * continues its total.
   */
  activeSeconds(): number[] {
    return this.#successions.map(({ activeSeconds }) => activeSeconds);
  }

  #facts(): WorkerFacts[] {
    return this.#successions.map(({ facts }) => facts).filter((facts) => facts !== null);
  }

  async #read(wanted: FiguresWanted): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, this.#timeoutMs);
    await Promise.race([Promise.all(this.#successions.map((succession) => succession.read(wanted))), late]);
    clearTimeout(timer);
    this.#areFactsNew = true;
    setTimeout(() => {
      this.#areFactsNew = false;
    }, this.#factsMaxAgeMs).unref();
  }
}

function isWorse(a: StoreHealth, b: StoreHealth): boolean {
  return a.state === b.state ? a.shards[a.state] > b.shards[b.state] : badnessOf(a.state) > badnessOf(b.state);
}

type AskWorker = (wanted: FiguresWanted) => Promise<WorkerFigures>;

interface Worker {
  readonly thread: number;
  readonly ask: AskWorker;
}

/**
 * A thread, and the threads that replaced it, one after the other. Their figures are added up first, then those of all
 * successions. So the order of the additions stays the same when a thread ends, and no sum is rounded differently. There
 * are no more successions than there were threads at once.
 */
class Succession implements FamilyLookup {
  #worker: Worker | null = null;
  readonly #readings = new Map<FiguresWanted, Promise<void>>();
  #last: ReadonlyMap<string, FamilyFigures> = new Map();
  /** Counters and histograms of the threads before. */
  readonly #counted = new Map<string, FamilyFigures>();
  facts: WorkerFacts | null = null;
  /** Of the threads before. */
  #activeBefore = 0;

  get activeSeconds(): number {
    return this.#activeBefore + (this.facts?.activeSeconds ?? 0);
  }

  get isFree(): boolean {
    return this.#worker === null;
  }

  get thread(): number | null {
    return this.#worker?.thread ?? null;
  }

  take(worker: Worker): void {
    this.#worker = worker;
  }

  leave(): void {
    for (const [name, { type }] of this.#last) {
      const family = this.get(name);
      if (type !== "gauge" && family !== undefined) this.#counted.set(name, family);
    }
    this.#activeBefore = this.activeSeconds;
    this.#last = new Map();
    this.#worker = null;
    this.#readings.clear();
    this.facts = null;
  }

  /** Resolves when the thread has answered. A thread that could not keeps the figures from before. */
  read(wanted: FiguresWanted): Promise<void> {
    const worker = this.#worker;
    if (worker === null) return Promise.resolve();
    const keep = (figures: WorkerFigures | null): void => {
      if (this.#worker !== worker) return;
      this.#readings.delete(wanted);
      if (figures === null) return;
      const { families, facts } = figures;
      if (families !== null) this.#last = new Map(families.map((family) => [family.name, family]));
      this.facts = facts;
    };
    const reading = this.#readings.get(wanted) ?? worker.ask(wanted).then(keep, () => keep(null));
    this.#readings.set(wanted, reading);
    return reading;
  }

  keys(): Iterable<string> {
    return [...this.#last.keys(), ...this.#counted.keys()];
  }

  get(name: string): FamilyFigures | undefined {
    const counted = this.#counted.get(name);
    const last = this.#last.get(name);
    return counted === undefined || last === undefined ? (last ?? counted) : mergeFamily([counted, last]);
  }
}
