// The last 15 minutes of each policy: how many requests it admitted, and how many it refused or would have. Nothing is counted
// here: the running totals of the policies are read once in a step, so a request costs nothing more. A policy is known by its
// name, so it keeps its past over a reload, also one that takes it away and is taken back within these minutes.
import type { Outcome } from "../../core/policy.ts";
import { maxSteps, Steps, type StepsView } from "./steps.ts";

/** What is kept of a policy's outcomes. */
const keptOutcomes = ["admitted", "throttled", "would_throttle", "unavailable"] as const satisfies Outcome[];

type KeptOutcome = (typeof keptOutcomes)[number];
type KeptCounts = Readonly<Record<KeptOutcome, number>>;

/** Running totals since the start, of all threads. */
export interface PolicyTotals {
  readonly policy: string;
  readonly outcomes: KeptCounts;
}

export interface PolicyHistoryView extends Omit<StepsView<PolicyStep>, "steps"> {
  /** How long each step was, the oldest first; null: a gap. */
  readonly durationsMs: readonly (number | null)[];
  /** Counts of each of these steps; null: a gap, or there was no such policy. */
  readonly policies: readonly {
    readonly policy: string;
    readonly counts: Readonly<Record<KeptOutcome, readonly (number | null)[]>>;
  }[];
}

interface PolicyStep {
  readonly durationMs: number;
  /** By name; null: the totals of its first reading. */
  readonly counts: ReadonlyMap<string, KeptCounts | null>;
}

/** Those of a configuration, which has 32 at most, and of one that a reload has replaced. */
export const maxPolicies = 64;

/** Of twelve policies: V8 takes about 80 bytes for what one says in a step. */
export const policyHistoryBytes = 80 * 12 * maxSteps;

export class PolicyHistory {
  readonly #steps: Steps<PolicyStep>;
  /** By name, the one that was there last at the end: the totals of the last reading that had the policy. */
  readonly #totals = new Map<string, KeptCounts>();

  constructor(nowMs: number) {
    this.#steps = new Steps(nowMs);
  }

  /** Ends the steps that are over. `totals` is called only when a step ends. */
  read(totals: () => readonly PolicyTotals[], nowMs: number): void {
    this.#steps.end(nowMs, (durationMs) => {
      const all = totals();
      // Totals begin at 0 with the process. What another policy said before its first reading was said at an unknown time.
      const isFirst = this.#steps.kept.length === 0;
      const counts = all.map(({ policy, outcomes }) => {
        const before = this.#totals.get(policy) ?? (isFirst ? noCounts : null);
        return [policy, before && since(before, outcomes)] as const;
      });
      for (const { policy, outcomes } of all) {
        this.#totals.delete(policy);
        this.#totals.set(policy, outcomes);
      }
      return { durationMs, counts: new Map(counts) };
    });
    this.#forget();
  }

  view(nowMs: number, wallMs: number): PolicyHistoryView {
    const { steps, ...when } = this.#steps.view(nowMs, wallMs);
    const policies = Array.from(this.#totals.keys(), (policy) => {
      const of = (outcome: KeptOutcome) => steps.map((step) => step?.counts.get(policy)?.[outcome] ?? null);
      return { policy, counts: byOutcome(of) };
    });
    return { ...when, durationsMs: steps.map((step) => step?.durationMs ?? null), policies };
  }

  /** Forgets policies that were away in all steps that are kept, and of too many those that are away for the longest time. */
  #forget(): void {
    for (const policy of this.#totals.keys()) {
      const isThere = this.#steps.kept.some((step) => step?.counts.has(policy));
      if (!isThere || this.#totals.size > maxPolicies) this.#totals.delete(policy);
    }
  }
}

const noCounts: KeptCounts = byOutcome(() => 0);

/** A policy that was away may have begun again. */
function since(before: KeptCounts, now: KeptCounts): KeptCounts {
  const from = keptOutcomes.some((outcome) => now[outcome] < before[outcome]) ? noCounts : before;
  return byOutcome((outcome) => now[outcome] - from[outcome]);
}

function byOutcome<Value>(of: (outcome: KeptOutcome) => Value): Record<KeptOutcome, Value> {
  return Object.fromEntries(keptOutcomes.map((outcome) => [outcome, of(outcome)])) as Record<KeptOutcome, Value>;
}
