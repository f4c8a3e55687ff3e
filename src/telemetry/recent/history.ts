// The last 15 minutes in steps of 5 s: what was admitted and refused, latency, the upstream, the store, memory. Each thread counts in
// a row of its own in shared memory, so the main thread reads without a message, and what a thread has counted is still there
// when it has ended. A step in which the main thread could not read is told as a gap, and the next one says how long it is.
import type { ExchangeRecord } from "../../core/exchange-record.ts";
import { type RefusalReason, refusalReasons } from "../../core/local-reply.ts";
import type { Outcome } from "../../core/policy.ts";
import { maxThreads } from "../../core/settings.ts";
import { badnessOf, type StoreState, storeStates } from "../../core/store-link.ts";
import { type UpstreamErrorReason, upstreamErrorReasons } from "../../core/upstream.ts";
import { PossibleProxies } from "./possible-proxies.ts";

export const stepMs = 5_000;

export const maxSteps = 180;

/** What is counted in a step. Reasons that did not occur are left out. */
export interface HistoryStep {
  /** Since the reading before: about 5 s, and longer after a gap. */
  readonly durationMs: number;
  readonly admitted: number;
  readonly refused: Readonly<Partial<Record<RefusalReason, number>>>;
  /** Of requests that the gateway forwarded, from head to end; null if there was none. Each is at most an eighth off. */
  readonly latencyMs: { readonly p50: number; readonly p90: number; readonly p99: number } | null;
  readonly upstream: {
    readonly answered: number;
    /** Until the head of the response; null if there was none. */
    readonly meanMs: number | null;
    readonly errors: Readonly<Partial<Record<UpstreamErrorReason, number>>>;
  };
  /** The state that the worst thread saw at the end; null: the counters are not shared, or no thread knows. */
  readonly store: { readonly state: StoreState; readonly lateDecisions: number } | null;
  readonly memory: MemoryUse;
}

/** At the end of a step, of the whole process. */
export interface MemoryUse {
  /** What the system counts. */
  readonly residentBytes: number;
  /** Objects in the heaps of all threads; in whole KiB. */
  readonly heapBytes: number;
  /** Buffers and the like, which these heaps only point to; in whole KiB. What threads share is counted by each. */
  readonly externalBytes: number;
}

export interface HistoryView {
  readonly stepMs: number;
  /** The end of the last step, in Unix milliseconds by the wall clock of now; null before there is one. */
  readonly endMs: number | null;
  /** One for each 5 s, the oldest first; null: a gap. */
  readonly steps: readonly (HistoryStep | null)[];
}

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
const refused = 7;
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
const columns = latencies + buckets;
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
  /** Of the late decisions, what is in the row. */
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

  finished({ source, problem, startedMs, dispatchedMs, answeredMs, endedMs }: ExchangeRecord): void {
    if (dispatchedMs !== null && answeredMs !== null) {
      this.#add(answered, 1);
      this.#add(upstreamUnits, Math.max(0, Math.round((answeredMs - dispatchedMs) / upstreamUnitMs)));
    }
    if (problem !== null) {
      this.#add(reasonColumns.get(problem) as number, 1);
      return;
    }
    this.#add(admitted, 1);
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

// An entry of the ring: the differences of the counts, without the buckets of latency, and these.
const durationMs = latencies;
const percentiles = latencies + 1;
const isGap = latencies + 4;
const residentBytes = latencies + 5;
const entryColumns = latencies + 6;
const shares = [0.5, 0.9, 0.99] as const;

/** Of all rows, and of what the main thread makes of them. */
export const historyBytes = 2 * 4 * stride * (maxThreads + 1) + 8 * columns + 8 * entryColumns * maxSteps;

/** Reads the rows, in the main thread. */
export class History {
  readonly #rows: Uint32Array;
  readonly #before: Uint32Array;
  readonly #difference = new Float64Array(columns);
  readonly #entries = new Float64Array(entryColumns * maxSteps);
  readonly #hasStore: boolean;
  readonly #residentBytes: () => number;
  readonly #steps: HistorySteps;

  /** `resident`: the memory of the process, in bytes. */
  constructor(memory: SharedArrayBuffer, hasStore: boolean, resident: () => number, nowMs: number) {
    this.#rows = new Uint32Array(memory, 0, stride * (maxThreads + 1));
    this.#before = this.#rows.slice();
    this.#hasStore = hasStore;
    this.#residentBytes = resident;
    this.#steps = new HistorySteps(nowMs);
  }

  /** Ends the steps that are over. Returns how long the current one lasts still. */
  read(nowMs: number): number {
    const ended = this.#steps.end(nowMs);
    if (ended !== null) {
      for (const step of ended.gaps) this.#entryOf(step)[isGap] = 1;
      this.#end(ended.last, ended.durationMs);
    }
    return (Math.floor(nowMs / stepMs) + 1) * stepMs - nowMs;
  }

  /** Of the newest `count` steps. */
  view(nowMs: number, wallMs: number, count = maxSteps): HistoryView {
    const steps = this.#steps
      .kept()
      .slice(-count)
      .map((step) => this.#stepOf(this.#entryOf(step)));
    return { stepMs, endMs: this.#steps.endMs(nowMs, wallMs), steps };
  }

  #entryOf(step: number): Float64Array {
    const start = entryColumns * (step % maxSteps);
    return this.#entries.subarray(start, start + entryColumns);
  }

  #end(step: number, lastedMs: number): void {
    const difference = this.#difference.fill(0);
    for (let start = 0; start < this.#rows.length; start += stride) {
      for (let column = 0; column < columns; column += 1) {
        const at = start + column;
        const now = this.#rows[at] as number;
        if (column === storeState) {
          difference[column] = Math.max(difference[column] as number, now);
          continue;
        }
        if (column === heapUnits || column === externalUnits) {
          difference[column] = (difference[column] as number) + now;
          continue;
        }
        difference[column] = (difference[column] as number) + ((now - (this.#before[at] as number)) >>> 0);
        this.#before[at] = now;
      }
    }
    const entry = this.#entryOf(step);
    entry.set(difference.subarray(0, latencies));
    entry[durationMs] = lastedMs;
    entry.set(percentilesOf(difference.subarray(latencies)), percentiles);
    entry[isGap] = 0;
    entry[residentBytes] = this.#residentBytes();
  }

  #stepOf(entry: Float64Array): HistoryStep | null {
    if (entry[isGap] === 1) return null;
    const value = (column: number): number => entry[column] as number;
    const [p50, p90, p99] = [value(percentiles), value(percentiles + 1), value(percentiles + 2)];
    const state = storeStates.find((each) => 1 + badnessOf(each) === value(storeState));
    const count = value(answered);
    return {
      durationMs: value(durationMs),
      admitted: value(admitted),
      refused: named(reasonColumns, value),
      latencyMs: p50 === 0 ? null : { p50, p90, p99 },
      upstream: {
        answered: count,
        meanMs: count === 0 ? null : (value(upstreamUnits) * upstreamUnitMs) / count,
        errors: named(errorColumns, value),
      },
      store: this.#hasStore && state !== undefined ? { state, lateDecisions: value(lateDecisions) } : null,
      memory: {
        residentBytes: value(residentBytes),
        heapBytes: value(heapUnits) * memoryUnitBytes,
        externalBytes: value(externalUnits) * memoryUnitBytes,
      },
    };
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

/** Returns the values of `shares` in milliseconds, as if those of a bucket were spread evenly; 0 if there are none. */
function percentilesOf(counts: Float64Array): number[] {
  const all = counts.reduce((sum, count) => sum + count, 0);
  return shares.map((share) => {
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
}

/** Steps that are over, and in which nothing else will be counted. */
export interface EndedSteps {
  /** Before the last one, of those that are kept. */
  readonly gaps: readonly number[];
  readonly last: number;
  /** Since the reading before: about 5 s, and longer after a gap. */
  readonly durationMs: number;
}

/** The steps of a history: 180 of 5 s, all of one clock. A step in which nobody could read is a gap. */
class HistorySteps {
  #readMs: number;
  /** The number of the first step that was not read yet, since the clock's start. */
  #next: number;
  readonly #first: number;

  constructor(nowMs: number) {
    this.#readMs = nowMs;
    this.#next = Math.floor(nowMs / stepMs);
    this.#first = this.#next;
  }

  /** Returns the steps that are over since the last call; null if there is none. */
  end(nowMs: number): EndedSteps | null {
    const current = Math.floor(nowMs / stepMs);
    if (current <= this.#next) return null;
    // What was counted in the meantime cannot be told apart, so it is of the last of these steps.
    const firstGap = Math.max(this.#next, current - maxSteps);
    const gaps = Array.from({ length: current - 1 - firstGap }, (_, i) => firstGap + i);
    const durationMs = nowMs - this.#readMs;
    this.#next = current;
    this.#readMs = nowMs;
    return { gaps, last: current - 1, durationMs };
  }

  /** Returns the numbers of the steps that are kept, the oldest first. */
  kept(): number[] {
    const from = Math.max(this.#first, this.#next - maxSteps);
    return Array.from({ length: this.#next - from }, (_, i) => from + i);
  }

  /** Returns the end of the last step, in Unix milliseconds by the wall clock of now; null before there is one. */
  endMs(nowMs: number, wallMs: number): number | null {
    return this.#next === this.#first ? null : Math.round(wallMs - nowMs + this.#next * stepMs);
  }
}

/** What is kept of a policy's outcomes. */
export const keptOutcomes = ["admitted", "throttled", "would_throttle", "unavailable"] as const satisfies Outcome[];

type KeptOutcome = (typeof keptOutcomes)[number];

/** Running totals since the start, of all threads. */
export interface PolicyTotals {
  readonly policy: string;
  readonly outcomes: Readonly<Record<KeptOutcome, number>>;
}

export interface PolicyHistoryView extends Omit<HistoryView, "steps"> {
  /** How long each step was, the oldest first; null: a gap. */
  readonly durationsMs: readonly (number | null)[];
  /** Counts of each of these steps; null: a gap, or there was no such policy. */
  readonly policies: readonly {
    readonly policy: string;
    readonly counts: Readonly<Record<KeptOutcome, readonly (number | null)[]>>;
  }[];
}

/** Those of a configuration, which has 32 at most, and of one that a reload has replaced. */
const maxPolicies = 64;

const perStep = keptOutcomes.length;
const perPolicy = perStep * maxSteps;
/** No count is as large, in 5 s. */
const unknown = 2 ** 32 - 1;

export const policyHistoryBytes = Uint32Array.BYTES_PER_ELEMENT * perPolicy * maxPolicies + 8 * maxSteps;

interface Kept {
  /** Where its counts are. */
  readonly slot: number;
  /** The totals of the last reading that had the policy. */
  totals: PolicyTotals["outcomes"];
  /** The last step with the policy. */
  lastStep: number;
}

/**
 * The last 15 minutes of each policy: how many requests it admitted, and how many it refused or would have. Nothing is
 * counted here: the running totals of the policies are read once in a step, so a request costs nothing more. A policy
 * is known by its name, so it keeps its past over a reload, also one that takes it away and is taken back within these
 * minutes.
 */
export class PolicyHistory {
  readonly #counts = new Uint32Array(perPolicy * maxPolicies);
  /** 0: a gap. */
  readonly #durationsMs = new Float64Array(maxSteps);
  /** By name, the one that was there last at the end. */
  readonly #kept = new Map<string, Kept>();
  readonly #steps: HistorySteps;
  /** Totals begin at 0 with the process. */
  #isFirst = true;

  constructor(nowMs: number) {
    this.#steps = new HistorySteps(nowMs);
  }

  /** Ends the steps that are over. `all`: of the policies in force. */
  read(all: readonly PolicyTotals[], nowMs: number): void {
    const ended = this.#steps.end(nowMs);
    if (ended === null) return;
    for (const step of [...ended.gaps, ended.last]) {
      this.#durationsMs[step % maxSteps] = 0;
      for (const { slot } of this.#kept.values()) this.#write(slot, step, null);
    }
    this.#durationsMs[ended.last % maxSteps] = ended.durationMs;
    for (const { policy, outcomes } of all) this.#add(policy, outcomes, ended.last);
    for (const [policy, { lastStep }] of this.#kept) {
      if (ended.last - lastStep >= maxSteps) this.#kept.delete(policy);
    }
    this.#isFirst = false;
  }

  view(nowMs: number, wallMs: number): PolicyHistoryView {
    const steps = this.#steps.kept();
    const durationsMs = steps.map((step) => this.#durationsMs[step % maxSteps] || null);
    const policies = Array.from(this.#kept, ([policy, { slot }]) => {
      const of = (column: number) => steps.map((step) => this.#at(slot, step, column));
      const [admitted, throttled, would_throttle, unavailable] = [of(0), of(1), of(2), of(3)];
      return { policy, counts: { admitted, throttled, would_throttle, unavailable } };
    });
    return { stepMs, endMs: this.#steps.endMs(nowMs, wallMs), durationsMs, policies };
  }

  #add(policy: string, totals: PolicyTotals["outcomes"], step: number): void {
    const before = this.#kept.get(policy);
    const slot = before?.slot ?? this.#freeSlot();
    // Behind the others.
    this.#kept.delete(policy);
    this.#kept.set(policy, { slot, totals, lastStep: step });
    if (before === undefined) {
      for (let i = 0; i < maxSteps; i += 1) this.#write(slot, i, null);
      // Of what a policy said before its first reading, nobody knows when.
      if (this.#isFirst) this.#write(slot, step, totals);
      return;
    }
    // A policy that was away begins again.
    const isAnew = keptOutcomes.some((outcome) => totals[outcome] < before.totals[outcome]);
    const since = (outcome: KeptOutcome) => totals[outcome] - (isAnew ? 0 : before.totals[outcome]);
    const [admitted, throttled] = [since("admitted"), since("throttled")];
    this.#write(slot, step, {
      ...{ admitted, throttled, would_throttle: since("would_throttle"), unavailable: since("unavailable") },
    });
  }

  /** The policy that is away for the longest time makes room. */
  #freeSlot(): number {
    if (this.#kept.size >= maxPolicies) {
      const [[oldest, { slot }] = ["", { slot: 0 }]] = this.#kept;
      this.#kept.delete(oldest);
      return slot;
    }
    const used = new Set(Array.from(this.#kept.values(), ({ slot }) => slot));
    return Array.from({ length: maxPolicies }, (_, slot) => slot).find((slot) => !used.has(slot)) ?? 0;
  }

  #write(slot: number, step: number, counts: PolicyTotals["outcomes"] | null): void {
    const start = slot * perPolicy + (step % maxSteps) * perStep;
    for (const [i, outcome] of keptOutcomes.entries()) {
      this.#counts[start + i] = counts === null ? unknown : Math.min(counts[outcome], unknown - 1);
    }
  }

  #at(slot: number, step: number, column: number): number | null {
    const count = this.#counts[slot * perPolicy + (step % maxSteps) * perStep + column] as number;
    return count === unknown ? null : count;
  }
}
