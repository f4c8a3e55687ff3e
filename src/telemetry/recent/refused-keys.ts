// The keys that each policy refused most, of all threads. Counts cover the current quarter of an hour and the one before it, so
// that a key that is no longer refused is forgotten.
import type { KeyWords } from "../../core/counter-key.ts";
import { isContinued, type PolicyIdentity } from "../../core/policy.ts";
import { type BoundedCount, LargestCounts } from "./largest-counts.ts";
import { maxPolicies } from "./policy-history.ts";

export const generationMs = 15 * 60_000;

/** At most so many keys are told at once. */
const maxToldKeys = 1_000;

/** Whose refusal made a key that is a hash known. */
interface SeenWith {
  readonly client: KeyWords;
  /** The name of the token or the subject, as it may be logged, of at most 64 bytes; null without one. */
  readonly subject: string | null;
  readonly route: string | null;
}

/** A key with its refusals. */
export interface RefusedKey extends BoundedCount {
  readonly key: KeyWords;
  /** Null for an address. */
  readonly seen: SeenWith | null;
}

/** What one thread has counted in a short time. */
export interface CountedKeys {
  readonly keys: readonly (RefusedKey & { readonly policy: PolicyIdentity })[];
  /** The most refusals of a key that is not among them, of any policy. */
  readonly floor: number;
}

interface Generation {
  /** By name. */
  readonly policies: Map<string, { policy: PolicyIdentity; readonly counts: LargestCounts<string, RefusedKey> }>;
  /** To be added to each count, and to its error. */
  floor: number;
}

/** `capacity`: as of LargestCounts, for each policy. */
export class RefusedKeys {
  readonly capacity: number;
  #current = emptyGeneration();
  #previous = emptyGeneration();
  #generation = Number.NaN;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** How many are counted. */
  get size(): number {
    const generations = [this.#current, this.#previous].flatMap(({ policies }) => [...policies.values()]);
    return generations.reduce((sum, { counts }) => sum + counts.entries.size, 0);
  }

  /** `nowMs`: of the monotonic clock. */
  add({ keys, floor }: CountedKeys, nowMs: number): void {
    this.#turn(nowMs);
    const generation = this.#current;
    generation.floor += floor;
    for (const { policy, key, count, error, seen } of keys) {
      const counts = this.#countsOf(policy);
      const name = nameOf(key);
      const known = counts.entries.get(name);
      // The floor of this portion is a part of these counts.
      const own = { count: count - floor, error: error - floor };
      if (known === undefined) counts.enter(name, { key, seen, ...own });
      else {
        known.count += own.count;
        known.error += own.error;
      }
    }
    for (const { counts } of generation.policies.values()) counts.prune();
  }

  /** Returns at most `maxToldKeys` keys, those with the most refusals first. `nowMs`: of the monotonic clock. */
  largest(policy: string, nowMs: number): RefusedKey[] {
    this.#turn(nowMs);
    const [now, before] = [countsIn(this.#current, policy), countsIn(this.#previous, policy)];
    const floor = this.#current.floor + this.#previous.floor;
    const keys = Array.from(new Map([...before.entries, ...now.entries]), ([name, { key, seen }]) => {
      const [recent, old] = [now.entries.get(name), before.entries.get(name)];
      const count = (recent?.count ?? now.floor) + (old?.count ?? before.floor);
      const error = (recent?.error ?? now.floor) + (old?.error ?? before.floor);
      return { key, count: count + floor, error: error + floor, seen };
    });
    return keys.sort((x, y) => y.count - x.count).slice(0, maxToldKeys);
  }

  #countsOf(policy: PolicyIdentity): LargestCounts<string, RefusedKey> {
    const { policies } = this.#current;
    const known = policies.get(policy.name) ?? this.#previous.policies.get(policy.name);
    // The keys of a policy that is no longer continued are other keys.
    if (known !== undefined && known.policy !== policy && !isContinued(policy, known.policy)) {
      policies.delete(policy.name);
      this.#previous.policies.delete(policy.name);
    }
    const current = policies.get(policy.name);
    if (current !== undefined) {
      current.policy = policy;
      return current.counts;
    }
    const [oldest] = policies.keys();
    if (policies.size >= maxPolicies && oldest !== undefined) policies.delete(oldest);
    const counts = new LargestCounts<string, RefusedKey>(this.capacity);
    policies.set(policy.name, { policy, counts });
    return counts;
  }

  #turn(nowMs: number): void {
    const generation = Math.floor(nowMs / generationMs);
    if (generation === this.#generation) return;
    this.#previous = generation === this.#generation + 1 ? this.#current : emptyGeneration();
    this.#current = emptyGeneration();
    this.#generation = generation;
  }
}

function emptyGeneration(): Generation {
  return { policies: new Map(), floor: 0 };
}

function countsIn({ policies }: Generation, policy: string): LargestCounts<string, RefusedKey> {
  return policies.get(policy)?.counts ?? new LargestCounts(1);
}

function nameOf({ a, b, c, d, isAddress }: KeyWords): string {
  return `${a},${b},${c},${d},${isAddress}`;
}
