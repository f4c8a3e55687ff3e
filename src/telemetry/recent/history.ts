// The last 15 minutes in steps of 5 s: what was admitted and refused, latency, the upstream, the store, memory. Each thread counts in
// a row of its own in shared memory, so the main thread reads without a message, and what a thread has counted is still there
// when it has ended. A step in which the main thread could not read is told as a gap, and the next one says how long it is.
import type { ExchangeRecord } from "../../core/exchange-record.ts";
import { type RefusalReason, refusalReasons } from "../../core/local-reply.ts";
import { maxThreads } from "../../core/settings.ts";
import { badnessOf, type StoreState, storeStates } from "../../core/store-link.ts";
import { type UpstreamErrorReason, upstreamErrorReasons } from "../../core/upstream.ts";
import { PossibleProxies } from "./possible-proxies.ts";
import { maxSteps, Steps, type StepsView, stepMs } from "./steps.ts";
import { type FailedRequests, FailureCounts } from "./upstream-failures.ts";

/** What is counted in a step. Reasons that did not occur are left out. */
export interface HistoryStep {
  /** Since the reading before: about 5 s, and longer after a gap. */
  readonly durationMs: number;
  readonly admitted: number;
  readonly refused: Readonly<Partial<Record<RefusalReason, number>>>;
  /** Of requests that the gateway forwarded, from head to end; null if there was none. */
  readonly latencyMs: LatencyPercentiles | null;
  readonly upstream: {
    readonly answered: number;
    /** Until the head of the response; null if there was none. */
    readonly meanMs: number | null;
    /** Whose client left before the upstream answered. */
    readonly abandoned: number;
    /** Until the head too. */
    readonly latencyMs: LatencyPercentiles | null;
    readonly failedByReason: Readonly<Partial<Record<UpstreamErrorReason, number>>>;
  };
  /** The state that the worst thread saw at the end; null: the counters are not shared, or no thread knows. */
  readonly store: { readonly state: StoreState; readonly lateDecisions: number } | null;
  readonly memory: MemoryUse;
}

/** Each is at most an eighth off. */
interface LatencyPercentiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** At the end of a step, of the whole process. */
interface MemoryUse {
  /** What the system counts. */
  readonly residentBytes: number;
  /** Objects in the heaps of all threads; in whole KiB. */
  readonly heapBytes: number;
  /** Buffers and the like, which these heaps only point to; in whole KiB. What threads share is counted by each. */
  readonly externalBytes: number;
}

export type HistoryView = StepsView<HistoryStep>;

// A row: counts that only grow, modulo 2^32, so that the difference of two readings is right whatever they are.
const admitted = 0;
const answered = 1;
const upstreamUnits = 2;
const lateDecisions = 3;
/** Not a count: 1 and the badness of the state. */
const storeState = 4;
/** Nor are these: KiB. */
const heapUnits = 5;
const externalUnits = 6;
const abandoned = 7;
const refused = 8;
const upstreamErrors = refused + refusalReasons.length;
const latencies = upstreamErrors + upstreamErrorReasons.length;

const memoryUnitBytes = 1024;

/** A sum of times then lasts for days of waiting in each step. */
const upstreamUnitMs = 1 / 16;

// Buckets of latency: one up to 64 µs, then eight for each doubling up to 134 s.
const lowestBits = 6;
const highestBits = 27;
const perDoubling = 8;
const buckets = 1 + perDoubling * (highestBits - lowestBits);
const upstreamLatencies = latencies + buckets;
const columns = upstreamLatencies + buckets;
/** Whole cache lines, so that a thread does not slow down another one. */
const stride = 16 * Math.ceil(columns / 16);

/** Then the possible proxies follow. */
const rowsBytes = Uint32Array.BYTES_PER_ELEMENT * stride * (maxThreads + 1);

const reasonColumns = new Map(refusalReasons.map((reason, i) => [reason, refused + i]));
const errorColumns = new Map(upstreamErrorReasons.map((reason, i) => [reason, upstreamErrors + i]));

/** The row of one thread, which alone writes it. */
export class HistoryRow {
  readonly memory: SharedArrayBuffer;
  readonly #row: Uint32Array;
  /** Late decisions already added to the row. */
  #late = 0;

  /** `thread`: from 0 to `maxThreads`. A thread goes on counting in the row of one that has ended. */
  constructor(memory: SharedArrayBuffer, thread: number) {
    this.memory = memory;
    this.#row = rowOf(memory, thread);
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer(rowsBytes + PossibleProxies.bytes);
  }

  /** The thread has ended: its counts stay, and what it saw of the store and of its memory does not. */
  static forget(memory: SharedArrayBuffer, thread: number): void {
    const row = rowOf(memory, thread);
    for (const column of [storeState, heapUnits, externalUnits]) row[column] = 0;
  }

  finished({ source, problem, fault, startedMs, queuedMs, dispatchedMs, answeredMs, endedMs }: ExchangeRecord): void {
    // A response that broke off is a failure, which `upstreamFailed` counts.
    if (dispatchedMs !== null && answeredMs !== null && fault === null) {
      const waitedMs = answeredMs - dispatchedMs;
      this.#add(answered, 1);
      this.#add(upstreamUnits, Math.max(0, Math.round(waitedMs / upstreamUnitMs)));
      this.#add(upstreamLatencies + bucketOf(waitedMs), 1);
    }
    if (problem !== null) {
      this.#add(reasonColumns.get(problem) as number, 1);
      return;
    }
    this.#add(admitted, 1);
    if ((dispatchedMs ?? queuedMs) !== null && answeredMs === null && fault === null) this.#add(abandoned, 1);
    // The ingress carries a checked request itself.
    if (source === "proxy" && dispatchedMs !== null) this.#add(latencies + bucketOf(endedMs - startedMs), 1);
  }

  upstreamFailed(reason: UpstreamErrorReason): void {
    this.#add(errorColumns.get(reason) as number, 1);
  }

  /** `late`: decisions without the store's answer so far, which only grow. */
  storeSeen(state: StoreState, late: number): void {
    this.#row[storeState] = 1 + badnessOf(state);
    this.#add(lateDecisions, late - this.#late);
    this.#late = late;
  }

  /** As Node counts them for this thread. */
  memorySeen(heapBytes: number, externalBytes: number): void {
    this.#row[heapUnits] = Math.round(heapBytes / memoryUnitBytes);
    this.#row[externalUnits] = Math.round(externalBytes / memoryUnitBytes);
  }

  /** Without Atomics: no other thread writes here, and a reader may see a count a moment later. */
  #add(column: number, count: number): void {
    this.#row[column] = (this.#row[column] as number) + count;
  }
}

function rowOf(memory: SharedArrayBuffer, thread: number): Uint32Array {
  return new Uint32Array(memory, Uint32Array.BYTES_PER_ELEMENT * stride * thread, stride);
}

function bucketOf(ms: number): number {
  const us = Math.min(2 ** highestBits - 1, Math.max(0, Math.round(ms * 1000)));
  const bits = 31 - Math.clz32(us);
  return bits < lowestBits ? 0 : 1 + perDoubling * (bits - lowestBits) + ((us >>> (bits - 3)) & (perDoubling - 1));
}

/** Returns the bounds of a bucket in microseconds. */
function boundsOf(bucket: number): [from: number, to: number] {
  if (bucket === 0) return [0, 2 ** lowestBits];
  const width = 2 ** (lowestBits + Math.floor((bucket - 1) / perDoubling) - 3);
  const from = width * (perDoubling + ((bucket - 1) % perDoubling));
  return [from, from + width];
}

const shares = [0.5, 0.9, 0.99] as const;

/** How long it is known at which address the upstream failed. */
export const failuresMs = 300_000;

/** The steps that have ended in this time, and the one that has not. */
const failureSteps = failuresMs / stepMs + 1;

/** Each step has a count for most columns but those of latency. */
const stepBytes = 16 * latencies;

export const historyBytes = rowsBytes + stepBytes * maxSteps + FailureCounts.maxBytes(failureSteps);

/** Reads the rows, in the main thread. */
export class History {
  readonly #rows: Uint32Array;
  readonly #readResident: () => number;
  #residentBytes = 0;
  readonly #steps: Steps<HistoryStep>;
  /** Of all rows, at the end of the last step. */
  #before: Uint32Array;
  readonly #failures = new FailureCounts(failureSteps);

  /** `resident`: the memory of the process, in bytes; throws if it cannot be read. */
  constructor(memory: SharedArrayBuffer, resident: () => number, nowMs: number) {
    this.#rows = new Uint32Array(memory, 0, stride * (maxThreads + 1));
    this.#readResident = resident;
    this.#resident();
    this.#steps = new Steps(nowMs);
    this.#before = this.#sums();
  }

  /** Ends the steps that are over. */
  read(nowMs: number): void {
    this.#steps.end(nowMs, (durationMs, gaps) => {
      const sums = this.#sums();
      const step = this.#stepOf(sums, durationMs);
      this.#before = sums;
      this.#failures.endStep(gaps);
      return step;
    });
  }

  /** What threads have handed over. */
  add(failures: readonly FailedRequests[]): void {
    for (const each of failures) this.#failures.add(each);
  }

  /** In the last `failuresMs`, by reason and address; up to a second later than the counts of the steps. */
  get failures(): readonly FailedRequests[] {
    return this.#failures.all;
  }

  /** Of the newest `count` steps. */
  view(nowMs: number, wallMs: number, count = maxSteps): HistoryView {
    const view = this.#steps.view(nowMs, wallMs);
    return { ...view, steps: view.steps.slice(-count) };
  }

  /** Returns the steps of the last `ms`, and the one that is not over yet. */
  recent(ms: number): HistoryStep[] {
    return [...this.#steps.kept.slice(-ms / stepMs).filter((step) => step !== null), this.#stepOf(this.#sums(), 0)];
  }

  /** Adds up all rows; of the store's states, the worst. */
  #sums(): Uint32Array {
    const sums = new Uint32Array(columns);
    for (let start = 0; start < this.#rows.length; start += stride) {
      for (let column = 0; column < columns; column += 1) {
        const value = this.#rows[start + column] as number;
        const sum = sums[column] as number;
        sums[column] = column === storeState ? Math.max(sum, value) : sum + value;
      }
    }
    return sums;
  }

  #stepOf(sums: Uint32Array, durationMs: number): HistoryStep {
    const counts = sums.map((sum, column) => sum - (this.#before[column] as number));
    const value = (column: number): number => counts[column] as number;
    const state = storeStates.find((each) => 1 + badnessOf(each) === sums[storeState]);
    const count = value(answered);
    return {
      durationMs,
      admitted: value(admitted),
      refused: named(reasonColumns, value),
      latencyMs: percentilesOf(counts.subarray(latencies, upstreamLatencies)),
      upstream: {
        answered: count,
        meanMs: count === 0 ? null : (value(upstreamUnits) * upstreamUnitMs) / count,
        abandoned: value(abandoned),
        latencyMs: percentilesOf(counts.subarray(upstreamLatencies)),
        failedByReason: named(errorColumns, value),
      },
      store: state === undefined ? null : { state, lateDecisions: value(lateDecisions) },
      memory: {
        residentBytes: this.#resident(),
        heapBytes: (sums[heapUnits] as number) * memoryUnitBytes,
        externalBytes: (sums[externalUnits] as number) * memoryUnitBytes,
      },
    };
  }

  /** Linux tells it in a file. While the process can open no more files, it is what it was before. */
  #resident(): number {
    try {
      this.#residentBytes = this.#readResident();
    } catch {
      // The counts of the step are told all the same.
    }
    return this.#residentBytes;
  }
}

function named<Name extends string>(
  byName: ReadonlyMap<Name, number>,
  value: (column: number) => number,
): Partial<Record<Name, number>> {
  const counts: Partial<Record<Name, number>> = {};
  for (const [name, column] of byName) if (value(column) > 0) counts[name] = value(column);
  return counts;
}

/** Returns the values of `shares` in milliseconds, as if those of a bucket were spread evenly; null if there are none. */
function percentilesOf(counts: Uint32Array): LatencyPercentiles | null {
  const all = counts.reduce((sum, count) => sum + count, 0);
  const [p50 = 0, p90 = 0, p99 = 0] = shares.map((share) => {
    let rank = share * all;
    for (const [bucket, count] of counts.entries()) {
      if (rank <= count && count > 0) {
        const [from, to] = boundsOf(bucket);
        return (from + (to - from) * (rank / count)) / 1000;
      }
      rank -= count;
    }
    return 0;
  });
  return all === 0 ? null : { p50, p90, p99 };
}
