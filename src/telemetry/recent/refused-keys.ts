// The keys that each policy refused most in one thread, and the sum over several threads. Counts cover the current quarter of
// an hour and the one before it, so that a key that is no longer refused is forgotten.
import type { CounterKey } from "../../core/counter-key.ts";
import { isContinued, type Policy } from "../../core/policy.ts";
import { type KeyWords, type RefusedKey, Sketch } from "./sketch.ts";
import { none } from "./slot-index.ts";

/** All threads begin a generation at the same instants, because their clocks agree. */
export const generationMs = 15 * 60_000;

/** At most so many policies: those of a configuration, and of one that a reload has replaced. */
const maxPolicies = 64;

/** At most so many keys are told at once. */
const maxToldKeys = 1_000;

/** The refused keys of one policy in one thread, those with the most refusals first. */
export interface KeySummary {
  readonly keys: readonly RefusedKey[];
  /** The most refusals of a key that is not among them. */
  readonly floor: number;
}

interface Generations {
  policy: Policy;
  current: Sketch;
  previous: Sketch;
}

export class RefusedKeys {
  readonly capacity: number;
  /** By name. */
  readonly #policies = new Map<string, Generations>();
  #last: Generations | null = null;
  #generation = Number.NaN;

  /** `capacity`: keys for each policy. */
  constructor(capacity: number) {
    this.capacity = capacity;
  }

  get bytes(): number {
    let bytes = 0;
    for (const { current, previous } of this.#policies.values()) bytes += current.bytes + previous.bytes;
    return bytes;
  }

  /** `atMs`: of the monotonic clock. The others are as in `Sketch.add`. */
  add(
    policy: Policy,
    key: CounterKey,
    client: CounterKey,
    subject: string | null,
    route: string | null,
    atMs: number,
  ): void {
    this.#turn(atMs);
    const generations = this.#last?.policy === policy ? this.#last : this.#of(policy);
    this.#last = generations;
    generations.current.add(key, client, subject, route);
  }

  /** Returns at most `maxToldKeys` keys. `nowMs`: of the monotonic clock. */
  summary(policy: string, nowMs: number): KeySummary {
    this.#turn(nowMs);
    const generations = this.#policies.get(policy);
    return generations === undefined ? { keys: [], floor: 0 } : addedUp(generations, maxToldKeys);
  }

  #of(policy: Policy): Generations {
    const known = this.#policies.get(policy.name);
    if (known !== undefined && isContinued(policy, known.policy)) {
      known.policy = policy;
      return known;
    }
    // The keys of a policy that is no longer continued are other keys.
    this.#policies.delete(policy.name);
    const [oldest] = this.#policies.keys();
    if (this.#policies.size >= maxPolicies && oldest !== undefined) this.#policies.delete(oldest);
    const made = { policy, current: new Sketch(this.capacity), previous: new Sketch(this.capacity) };
    this.#policies.set(policy.name, made);
    return made;
  }

  #turn(nowMs: number): void {
    const generation = Math.floor(nowMs / generationMs);
    if (generation === this.#generation) return;
    const isNext = generation === this.#generation + 1;
    // An exchange may have ended shortly before the one that was seen first in this generation.
    if (generation < this.#generation) return;
    this.#generation = generation;
    for (const [name, generations] of this.#policies) {
      const { current, previous } = generations;
      previous.clear();
      generations.current = previous;
      generations.previous = current;
      if (!isNext) current.clear();
      if (current.size === 0) this.#policies.delete(name);
    }
    this.#last = null;
  }
}

/** Adds up both generations of a policy, without a text for each key. */
function addedUp({ current, previous }: Generations, limit: number): KeySummary {
  const counts = new Float64Array(current.size + previous.size);
  const other = new Int32Array(current.size);
  const isInBoth = new Uint8Array(previous.size);
  for (let slot = 0; slot < current.size; slot += 1) {
    const found = previous.find(current.keyOf(slot));
    other[slot] = found;
    if (found !== none) isInBoth[found] = 1;
    counts[slot] = current.countOf(slot) + (found === none ? previous.floor : previous.countOf(found));
  }
  for (let slot = 0; slot < previous.size; slot += 1) {
    counts[current.size + slot] = isInBoth[slot] === 1 ? 0 : previous.countOf(slot) + current.floor;
  }
  const order = Array.from(counts.keys())
    .filter((at) => counts[at] !== 0)
    .sort((x, y) => (counts[y] as number) - (counts[x] as number));
  const keys = order.slice(0, limit).map((at): RefusedKey => {
    const count = counts[at] as number;
    if (at >= current.size) {
      const slot = at - current.size;
      const error = previous.errorOf(slot) + current.floor;
      return { key: previous.keyOf(slot), count, error, seen: previous.seenOf(slot) };
    }
    const found = other[at] as number;
    const error = current.errorOf(at) + (found === none ? previous.floor : previous.errorOf(found));
    return { key: current.keyOf(at), count, error, seen: current.seenOf(at) };
  });
  const firstLeftOut = order.length > limit ? (counts[order[limit] as number] as number) : 0;
  return { keys, floor: Math.max(firstLeftOut, current.floor + previous.floor) };
}

/**
 * Adds up the summaries of several threads. A key that one of them lacks may have had as many refusals there as `floor`
 * says: they are added to its count and to its possible error.
 */
export function merged(summaries: readonly KeySummary[]): KeySummary {
  const floor = summaries.reduce((sum, each) => sum + each.floor, 0);
  const sums = new Map<string, RefusedKey>();
  for (const summary of summaries) {
    for (const { key, count, error, seen } of summary.keys) {
      const name = nameOf(key);
      const sum = sums.get(name) ?? { key, count: floor, error: floor, seen };
      sums.set(name, { ...sum, count: sum.count + count - summary.floor, error: sum.error + error - summary.floor });
    }
  }
  return { keys: [...sums.values()].sort((x, y) => y.count - x.count), floor };
}

function nameOf({ a, b, c, d, isAddress }: KeyWords): string {
  return `${a},${b},${c},${d},${isAddress}`;
}
