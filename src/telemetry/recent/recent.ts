// The last minutes of the whole process, for the admin API: asks all threads and adds up what they say, reads the history,
// and passes a sample of refusals to whoever listens. While nobody listens, no thread is asked for it.
import type { Clock } from "../../core/clock.ts";
import { History, type HistoryView } from "./history.ts";
import { PolicyHistory, type PolicyHistoryView, type PolicyTotals } from "./policy-history.ts";
import type { LastRefusals, RefusalsOf, RefusedRequest } from "./refusals.ts";
import { generationMs, merged, type RefusedKey } from "./sketch.ts";
import type { RecentAnswer, RecentQuestion } from "./thread-recent.ts";

/** The threads that carry traffic. */
export interface RecentThreads {
  /** Of HistoryRow. */
  readonly memory: SharedArrayBuffer;
  ask(question: RecentQuestion): Promise<ThreadAnswers>;
}

interface ThreadAnswers {
  readonly answers: readonly RecentAnswer[];
  /** Threads that have not answered. */
  readonly missing: number;
}

/** The keys that a policy refused most, those with the most refusals first. */
export interface MostRefused {
  readonly keys: readonly RefusedKey[];
  /** From when on refusals are counted, in Unix milliseconds. */
  readonly sinceMs: number;
  /** Threads whose refusals are not counted, because they have not answered: then a count may be too low. */
  readonly missing: number;
}

/** What was refused in about a second. */
export interface RefusalSample {
  /** At most `sampledPerSecond`, of as many clients as possible, the oldest first. */
  readonly refusals: readonly RefusedRequest[];
  /** How many others there were. */
  readonly leftOut: number;
}

const sampledPerSecond = 10;
const samplePeriodMs = 1_000;

interface RecentOptions {
  readonly threads: RecentThreads;
  readonly clock: Clock;
  /** Whether the counters are shared. */
  readonly hasStore: boolean;
  /** What each policy in force has said since the start, in all threads. */
  readonly policies: () => Promise<readonly PolicyTotals[]>;
  /** The memory of the process, as the system counts it. */
  readonly residentBytes: () => number;
  /** Called for bugs. */
  readonly onFailure: (error: unknown) => void;
}

export class Recent {
  readonly #options: RecentOptions;
  readonly #history: History;
  readonly #policies: PolicyHistory;
  #readingPolicies: Promise<void> | null = null;
  readonly #startedMs: number;
  #historyTimer: NodeJS.Timeout | undefined;
  readonly #listeners = new Set<(sample: RefusalSample) => void>();
  #sampleTimer: NodeJS.Timeout | undefined;
  #isFirstSample = true;

  /** Reads the history from now on, until `close`. */
  constructor(options: RecentOptions) {
    const { threads, clock, hasStore, residentBytes } = options;
    this.#options = options;
    this.#startedMs = clock.monotonicMs();
    this.#history = new History(threads.memory, hasStore, residentBytes, this.#startedMs);
    this.#policies = new PolicyHistory(this.#startedMs);
    this.#readHistory();
  }

  /** Returns the refusal with this id, or else the latest one with this `requestId`; null if none is kept. */
  async request(id: string): Promise<RefusedRequest | null> {
    const [own] = (await this.last({ kind: "id", id }, 1)).refusals;
    if (own !== undefined) return own;
    const { refusals, isComplete } = await this.last({ kind: "requestId", id }, 1);
    const [latest] = refusals;
    return latest === undefined || isComplete ? (latest ?? null) : { ...latest, isRepeated: true };
  }

  /** Returns the last refusals of all threads, at most `limit`. */
  async last(of: RefusalsOf, limit: number): Promise<LastRefusals> {
    const { answers, missing } = await this.#options.threads.ask({ kind: "last", of, limit });
    const lists = answers.flatMap((answer) => (answer.kind === "last" ? [answer.last] : []));
    const refusals = lists.flatMap((list) => list.refusals).sort((x, y) => y.atMs - x.atMs);
    const isComplete = missing === 0 && refusals.length <= limit && lists.every((list) => list.isComplete);
    return { refusals: refusals.slice(0, limit), isComplete };
  }

  /** Returns at most `limit` keys. */
  async refused(policy: string, limit: number): Promise<MostRefused> {
    const { threads, clock } = this.#options;
    const { answers, missing } = await threads.ask({ kind: "refused", policy });
    const summaries = answers.flatMap((answer) => (answer.kind === "refused" ? [answer.summary] : []));
    const nowMs = clock.monotonicMs();
    const sinceMs = Math.max(this.#startedMs, generationMs * (Math.floor(nowMs / generationMs) - 1));
    return {
      keys: merged(summaries).keys.slice(0, limit),
      sinceMs: Math.round(clock.wallMs() - (nowMs - sinceMs)),
      missing,
    };
  }

  /** Of the newest `count` steps; without it, of all. */
  history(count?: number): HistoryView {
    const { clock } = this.#options;
    const nowMs = clock.monotonicMs();
    // The timer may be late.
    this.#history.read(nowMs);
    return this.#history.view(nowMs, clock.wallMs(), count);
  }

  async policyHistory(): Promise<PolicyHistoryView> {
    const { clock } = this.#options;
    await this.#readPolicies();
    return this.#policies.view(clock.monotonicMs(), clock.wallMs());
  }

  /** Returns the function that ends it. The listener is called at most once in a second, and not if nothing was refused. */
  onRefusal(listener: (sample: RefusalSample) => void): () => void {
    // A listener may be added twice.
    const each = (sample: RefusalSample): void => listener(sample);
    this.#listeners.add(each);
    if (this.#listeners.size === 1) this.#beginSampling();
    return () => {
      if (this.#listeners.delete(each) && this.#listeners.size === 0) this.#endSampling();
    };
  }

  close(): void {
    clearTimeout(this.#historyTimer);
    this.#listeners.clear();
    this.#endSampling();
  }

  #readHistory(): void {
    const { clock, onFailure } = this.#options;
    const leftMs = this.#history.read(clock.monotonicMs());
    this.#readPolicies().catch(onFailure);
    // A timer may fire early.
    this.#historyTimer = setTimeout(() => this.#readHistory(), Math.ceil(leftMs) + 1).unref();
  }

  /** A thread may take long to answer, so all who want it meanwhile share one reading. */
  #readPolicies(): Promise<void> {
    const { policies, clock } = this.#options;
    const read = async (): Promise<void> => this.#policies.read(await policies(), clock.monotonicMs());
    this.#readingPolicies ??= read().finally(() => {
      this.#readingPolicies = null;
    });
    return this.#readingPolicies;
  }

  #beginSampling(): void {
    const { onFailure } = this.#options;
    const sample = (): void => {
      this.#sample().catch(onFailure);
    };
    this.#isFirstSample = true;
    this.#sampleTimer = setInterval(sample, samplePeriodMs).unref();
    sample();
  }

  #endSampling(): void {
    clearInterval(this.#sampleTimer);
    this.#sampleTimer = undefined;
  }

  async #sample(): Promise<void> {
    const timer = this.#sampleTimer;
    const isFirst = this.#isFirstSample;
    this.#isFirstSample = false;
    const { answers } = await this.#options.threads.ask({ kind: "sample", isFirst, limit: sampledPerSecond });
    // Somebody else may listen now.
    if (timer !== this.#sampleTimer) return;
    const samples = answers.flatMap((answer) => (answer.kind === "sample" ? [answer.refused] : []));
    const count = samples.reduce((sum, sample) => sum + sample.count, 0);
    if (count === 0) return;
    const refusals = inTurn(samples.map(({ sample }) => sample)).slice(0, sampledPerSecond);
    refusals.sort((x, y) => x.atMs - y.atMs);
    for (const listener of this.#listeners) this.#tell(listener, { refusals, leftOut: count - refusals.length });
  }

  /** A listener that fails keeps nothing from the others. */
  #tell(listener: (sample: RefusalSample) => void, sample: RefusalSample): void {
    try {
      listener(sample);
    } catch (error) {
      this.#options.onFailure(error);
    }
  }
}

/** Returns one of each list, then another one of each. */
function inTurn<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat();
}
