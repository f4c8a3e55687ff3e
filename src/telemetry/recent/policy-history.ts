// The last 15 minutes of each policy: how many requests it admitted, and how many it refused or would have. Nothing is counted
// here: the running totals of the policies are read once in a step, so a request costs nothing more. A policy is known by its
// name, so it keeps its past over a reload, also one that takes it away and is taken back within these minutes.
import type { Outcome } from "../../core/policy.ts";
import { HistorySteps, maxSteps, stepMs } from "./history-steps.ts";

/** What is kept of a policy's outcomes. */
export const keptOutcomes = ["admitted", "throttled", "would_throttle", "unavailable"] as const satisfies Outcome[];

type KeptOutcome = (typeof keptOutcomes)[number];

/** Running totals since the start, of all threads. */
export interface PolicyTotals {
  readonly policy: string;
  readonly outcomes: Readonly<Record<KeptOutcome, number>>;
}

export interface PolicyHistoryView {
  readonly stepMs: number;
  /** The end of the last step, in Unix milliseconds by the wall clock of now; null before there is one. */
  readonly endMs: number | null;
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
