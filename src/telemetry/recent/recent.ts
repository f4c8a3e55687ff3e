// The last minutes of the whole process, for the admin API: adds up what the threads hand over, reads the history, and passes a
// sample of refusals to the listeners. Asks no thread for anything.
import type { Clock } from "../../core/clock.ts";
import { failuresMs, History, type HistoryView } from "./history.ts";
import { PolicyHistory, type PolicyHistoryView, type PolicyTotals } from "./policy-history.ts";
import type { RecentMemory } from "./recent-memory.ts";
import type { LastRefusals, RefusalsOf } from "./refusals.ts";
import { generationMs, type RefusedKey } from "./refused-keys.ts";
import type { RefusedRequest } from "./refused-request.ts";
import type { RecentBatch, RecentSizes } from "./thread-recent.ts";
import type { FailedRequests } from "./upstream-failures.ts";

/** The threads that carry traffic. */
export interface RecentThreads {
  /** Of HistoryRow. */
  readonly memory: SharedArrayBuffer;
  /** Returns what they have handed over since the last call. If this is the only thread, that is all that it has noted. */
  take(): readonly RecentBatch[];
}

/** The keys that a policy refused most, those with the most refusals first. */
export interface MostRefused {
  readonly keys: readonly RefusedKey[];
  /** From when on refusals are counted, in Unix milliseconds. */
  readonly sinceMs: number;
}

/** What was refused in about a second. */
export interface RefusalSample {
  /** At most `sampledPerSecond`, of as many clients as possible, the oldest first. */
  readonly refusals: readonly RefusedRequest[];
  /** How many others there were. */
  readonly leftOut: number;
}

/** How the upstream was in the last `ms`. */
interface UpstreamMinutes {
  readonly ms: number;
  /** Responses. */
  readonly answered: number;
  /** Until the head of a response; null if there was none. */
  readonly meanMs: number | null;
  /** Requests whose client left before the upstream answered. */
  readonly abandoned: number;
  /** The most frequent cause first. */
  readonly failures: readonly FailedRequests[];
}

const sampledPerSecond = 10;

/** As often as threads hand over. */
const periodMs = 1_000;

interface RecentOptions {
  readonly threads: RecentThreads;
  readonly recentMemory: RecentMemory;
  /** In force. */
  readonly sizes: () => RecentSizes;
  readonly clock: Clock;
  /** What each policy in force has said since the start, in all threads. */
  readonly policies: () => readonly PolicyTotals[];
  /** The memory of the process, as the system counts it. */
  readonly residentBytes: () => number;
  /** Called for bugs. */
  readonly onFailure: (error: unknown) => void;
}

export class Recent {
  readonly #options: RecentOptions;
  readonly #history: History;
  readonly #policies: PolicyHistory;
  readonly #startedMs: number;
  readonly #timer: NodeJS.Timeout;
  readonly #listeners = new Set<(sample: RefusalSample) => void>();
  /** Since listeners were told last. */
  #batches: RecentBatch[] = [];

  /** Reads the history from now on, and what threads hand over, until `close`. */
  constructor(options: RecentOptions) {
    const { threads, clock, residentBytes } = options;
    this.#options = options;
    this.#startedMs = clock.monotonicMs();
    this.#history = new History(threads.memory, residentBytes, this.#startedMs);
    this.#policies = new PolicyHistory(this.#startedMs);
    this.#timer = setInterval(() => this.#tell(), periodMs).unref();
  }

  /** Returns the refusal with this id, or else the latest one with this `requestId`; null if none is kept. */
  request(id: string): RefusedRequest | null {
    const [own] = this.last({ kind: "id", id }, 1).refusals;
    if (own !== undefined) return own;
    const { refusals, isComplete } = this.last({ kind: "requestId", id }, 1);
    const [latest] = refusals;
    return latest === undefined || isComplete ? (latest ?? null) : { ...latest, isRepeated: true };
  }

  /** Returns the last refusals of all threads, at most `limit`. */
  last(of: RefusalsOf, limit: number): LastRefusals {
    return this.#taken().refusals.last(of, limit);
  }

  refused(policy: string): MostRefused {
    const { clock } = this.#options;
    const nowMs = clock.monotonicMs();
    const sinceMs = Math.max(this.#startedMs, generationMs * (Math.floor(nowMs / generationMs) - 1));
    return {
      keys: this.#taken().keys.largest(policy, nowMs),
      sinceMs: Math.round(clock.wallMs() - (nowMs - sinceMs)),
    };
  }

  upstream(): UpstreamMinutes {
    this.#taken();
    const steps = this.#history.recent(failuresMs);
    const answered = steps.reduce((sum, step) => sum + step.upstream.answered, 0);
    const waitedMs = steps.reduce((sum, { upstream }) => sum + upstream.answered * (upstream.meanMs ?? 0), 0);
    const abandoned = steps.reduce((sum, step) => sum + step.upstream.abandoned, 0);
    return {
      ...{ ms: failuresMs, answered, meanMs: answered === 0 ? null : waitedMs / answered, abandoned },
      failures: this.#history.failures.toSorted((x, y) => y.count - x.count),
    };
  }

  /** Of the newest `count` steps; without it, of all. */
  history(count?: number): HistoryView {
    const { clock } = this.#options;
    this.#taken();
    return this.#history.view(clock.monotonicMs(), clock.wallMs(), count);
  }

  policyHistory(): PolicyHistoryView {
    const { policies, clock } = this.#options;
    this.#policies.read(policies, clock.monotonicMs());
    return this.#policies.view(clock.monotonicMs(), clock.wallMs());
  }

  /** Returns the function that ends it. The listener is called at most once in a second, and not if nothing was refused. */
  onRefusal(listener: (sample: RefusalSample) => void): () => void {
    // What was refused before is not told.
    if (this.#listeners.size === 0) this.#taken();
    // A listener may be added twice.
    const each = (sample: RefusalSample): void => listener(sample);
    this.#listeners.add(each);
    return () => {
      this.#listeners.delete(each);
      if (this.#listeners.size === 0) this.#batches = [];
    };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }

  /** Takes what threads have handed over, and ends the steps that are over. Who asks need not wait for the timer. */
  #taken(): RecentMemory {
    const { threads, recentMemory, sizes, clock } = this.#options;
    const nowMs = clock.monotonicMs();
    recentMemory.resize(sizes());
    for (const batch of threads.take()) {
      recentMemory.add(batch, nowMs);
      this.#history.add(batch.failures);
      if (this.#listeners.size > 0) this.#batches.push(batch);
    }
    this.#history.read(nowMs);
    return recentMemory;
  }

  #tell(): void {
    const { policies, clock, onFailure } = this.#options;
    // What fails keeps nothing from the others.
    attempt(() => this.#taken(), onFailure);
    attempt(() => this.#policies.read(policies, clock.monotonicMs()), onFailure);
    const count = this.#batches.reduce((sum, batch) => sum + batch.count, 0);
    const refusals = sampleOf(this.#batches.flatMap((batch) => batch.refusals));
    this.#batches = [];
    if (count === 0) return;
    for (const listener of this.#listeners) {
      attempt(() => listener({ refusals, leftOut: count - refusals.length }), onFailure);
    }
  }
}

function attempt(work: () => unknown, onFailure: (error: unknown) => void): void {
  try {
    work();
  } catch (error) {
    onFailure(error);
  }
}

function sampleOf(refusals: readonly RefusedRequest[]): RefusedRequest[] {
  const ofClients = new Map(refusals.map((refusal) => [refusal.client, refusal]));
  const chosen = [...new Set([...ofClients.values(), ...refusals])].slice(0, sampledPerSecond);
  return chosen.sort((x, y) => x.atMs - y.atMs);
}
