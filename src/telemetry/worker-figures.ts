// Merges the figures of the worker threads with the main thread's, without asking a thread: counts are read in the cells where a
// worker counts, and other figures as it handed them over last. No counter goes back: the counts of a thread stay in the sums
// after it has ended. Its gauges are removed.
import { OutcomeCells } from "../core/cells.ts";
import { countsOf, type Outcome } from "../core/policy.ts";
import { badnessOf, type StoreHealth } from "../core/store-link.ts";
import type { AddressFigures, AddressState, UpstreamHealth } from "../core/upstream.ts";
import { CellFamilyReader } from "./families.ts";
import { type FamilyFigures, mergeFamilies, mergeFamily } from "./figures.ts";
import { readDelays } from "./process-metrics.ts";
import { healthOf, unusedStore } from "./shared-store-metrics.ts";
import { ratioOf, type SeenHealth, SeenUpstream, type ThreadCells, type ThreadReport } from "./telemetry.ts";

/** A thread, as it is known without asking it. */
export interface KnownThread {
  readonly thread: number;
  /** A reload replaces this object. */
  readonly cells: ThreadCells;
  /** As it was handed over last. */
  readonly report: ThreadReport;
  /** Running total of the time in which its event loop was not idle. */
  readonly activeSeconds: number;
}

export class WorkerReadings {
  readonly #successions: Succession[] = [];

  add(known: KnownThread): void {
    const free = this.#successions.find((succession) => succession.known === null);
    if (free !== undefined) free.known = known;
    else this.#successions.push(new Succession(known));
  }

  /** The thread is gone. */
  remove(thread: number): void {
    this.#successions.find(({ known }) => known?.thread === thread)?.leave();
  }

  /** Reads all threads, then `own`, and merges them one family at a time. */
  async *merged(own: AsyncIterable<FamilyFigures>): AsyncGenerator<FamilyFigures> {
    const threads = this.#successions.map((succession) => succession.families());
    const families = new Map<string, FamilyFigures>();
    for await (const family of own) families.set(family.name, family);
    yield* mergeFamilies([families, ...threads]);
  }

  /** Returns the outcomes of a policy in all threads since the start. */
  outcomes(policy: string): Record<Outcome, number> {
    const parts = this.#successions.map((succession) => succession.outcomes(policy));
    return countsOf((outcome) => parts.reduce((sum, part) => sum + part[outcome], 0));
  }

  /** The result of the last attempt of all threads. */
  upstreamHealth(): UpstreamHealth {
    const seen = this.#successions.flatMap((succession) => succession.upstream() ?? []);
    const [last] = seen.sort((a, b) => b.atMs - a.atMs);
    return { state: last?.state ?? "unknown", reason: last?.reason ?? null };
  }

  /** Of the thread that can use the fewest addresses. */
  addresses(): Pick<AddressFigures, "available" | "ejected"> {
    const all = this.#reports().map(({ addresses }) => {
      const ejected = addresses.filter(({ ejectedFor }) => ejectedFor !== null).length;
      return { available: addresses.length - ejected, ejected };
    });
    return all.sort((a, b) => a.available - b.available)[0] ?? { available: 0, ejected: 0 };
  }

  /** An address is ejected if it is in one of the threads. */
  addressStates(): AddressState[] {
    const byAddress = new Map<string, AddressState>();
    for (const { address, ejectedFor, active } of this.#reports().flatMap(({ addresses }) => addresses)) {
      const sum = byAddress.get(address) ?? { ejectedFor: null, active: 0 };
      byAddress.set(address, { address, ejectedFor: sum.ejectedFor ?? ejectedFor, active: sum.active + active });
    }
    return [...byAddress.values()];
  }

  /** The worst state in which a thread sees the store, since when the first does, and the most gateways that a thread sees. */
  storeHealth(): StoreHealth {
    const seen = this.#reports().flatMap(({ store }) => store ?? []);
    const worst = seen.reduce((a, b) => (isWorse(b, a) ? b : a), seen[0] ?? healthOf(unusedStore));
    const since = seen.flatMap(({ state, sinceMs }) => (state === worst.state ? (sinceMs ?? []) : []));
    return {
      ...worst,
      replicas: Math.max(worst.replicas, ...seen.map(({ replicas }) => replicas)),
      sinceMs: since.length === 0 ? null : Math.min(...since),
    };
  }

  /** The share that a client has of the requests of all threads. */
  busiestClientRatio(): number {
    return ratioOf(this.#reports().map(({ busiest }) => busiest));
  }

  /**
   * Running totals of the time in which the event loops were not idle. A worker that replaces another continues its total.
   */
  activeSeconds(): number[] {
    return this.#successions.map((succession) => succession.activeSeconds());
  }

  #reports(): ThreadReport[] {
    return this.#successions.flatMap(({ known }) => known?.report ?? []);
  }
}

function isWorse(a: StoreHealth, b: StoreHealth): boolean {
  return a.state === b.state ? a.shards[a.state] > b.shards[b.state] : badnessOf(a.state) > badnessOf(b.state);
}

/**
 * A thread, and the threads that replaced it, one after the other. Their figures are added up first, then those of all
 * successions. So the order of the additions stays the same when a thread ends, and no sum is rounded differently. There
 * are no more successions than there were threads at once.
 */
class Succession {
  /** Null: the last one has ended, and no other has replaced it. */
  known: KnownThread | null;
  #readers: { readonly of: ThreadCells; readonly families: readonly CellFamilyReader[] } | null = null;
  /** Counters and histograms of the threads before. */
  readonly #counted = new Map<string, FamilyFigures>();
  /** By policy: the outcomes in the threads before. */
  readonly #ended = new Map<string, Record<Outcome, number>>();
  #activeBefore = 0;
  #active = 0;

  constructor(known: KnownThread) {
    this.known = known;
  }

  /** Node knows no such time of a thread that has ended, so the largest counts. */
  activeSeconds(): number {
    this.#active = Math.max(this.#active, this.known?.activeSeconds ?? 0);
    return this.#activeBefore + this.#active;
  }

  leave(): void {
    if (this.known === null) return;
    for (const [name, family] of this.families()) if (family.type !== "gauge") this.#counted.set(name, family);
    for (const policy of this.known.cells.outcomes.keys()) this.#ended.set(policy, this.outcomes(policy));
    this.#activeBefore = this.activeSeconds();
    this.#active = 0;
    this.known = null;
  }

  /** Reads the thread, and adds what the threads before it have counted. */
  families(): ReadonlyMap<string, FamilyFigures> {
    if (this.known === null) return this.#counted;
    const { cells, report } = this.known;
    if (this.#readers?.of !== cells) {
      this.#readers = { of: cells, families: cells.families.map((family) => new CellFamilyReader(family)) };
    }
    const counted = this.#readers.families.map((family) => family.figures());
    const families = [...report.families, ...readDelays(cells.delays), ...counted];
    const last = new Map(families.map((family) => [family.name, family]));
    for (const [name, before] of this.#counted) {
      const family = last.get(name);
      last.set(name, family === undefined ? before : mergeFamily([before, family]));
    }
    return last;
  }

  upstream(): SeenHealth | null {
    return this.known && new SeenUpstream(this.known.cells.upstream).seen;
  }

  outcomes(policy: string): Record<Outcome, number> {
    const range = this.known?.cells.outcomes.get(policy);
    const counts = range === undefined ? null : new OutcomeCells(range);
    const ended = this.#ended.get(policy);
    return countsOf((outcome) => (ended?.[outcome] ?? 0) + (counts?.[outcome] ?? 0));
  }
}
