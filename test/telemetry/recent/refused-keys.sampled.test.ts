// The counts of refused keys beside exact ones: never too low, and never off by more than they say.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CounterKey, type KeyWords } from "../../../src/core/counter-key.ts";
import type { PolicyIdentity } from "../../../src/core/policy.ts";
import { LargestCounts } from "../../../src/telemetry/recent/largest-counts.ts";
import { generationMs, type RefusedKey, RefusedKeys } from "../../../src/telemetry/recent/refused-keys.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { inFullOr, runs } from "../../support/runs.ts";

const policy = slidingPolicy({ limit: 1, windowMs: 1_000 });
/** Every third key is a hash; the words of neighbours differ in one of four places. */
const keys = Array.from({ length: 300 }, (_, i) => new CounterKey(i & 1, i & 2, i & 0xfffc, 7, i % 3 !== 0));
const client = new CounterKey(0, 0, 0xffff, 0x7f000001, true);
const keyAt = (i: number): CounterKey => keys[i] as CounterKey;
const addressOf = (i: number): CounterKey => new CounterKey(0x20010db8, i, 0, 0, true);
const nameOf = ({ a, b, c, d, isAddress }: KeyWords): string => [a, b, c, d, isAddress].join();

class Exact {
  readonly counts = new Map<string, number>();
  all = 0;

  add(key: CounterKey): void {
    this.all += 1;
    this.counts.set(nameOf(key), (this.counts.get(nameOf(key)) ?? 0) + 1);
  }

  of(key: KeyWords): number {
    return this.counts.get(nameOf(key)) ?? 0;
  }

  /** The most of a key that is not among these. */
  mostBeside(told: readonly { readonly key: KeyWords }[]): number {
    const names = new Set(told.map(({ key }) => nameOf(key)));
    return Math.max(0, ...[...this.counts].map(([name, count]) => (names.has(name) ? 0 : count)));
  }
}

function expectBounds(keys: readonly RefusedKey[], exact: Exact): void {
  for (const { key, count, error } of keys) {
    expect(count).toBeGreaterThanOrEqual(exact.of(key));
    expect(count - error).toBeLessThanOrEqual(exact.of(key));
    expect(error).toBeGreaterThanOrEqual(0);
  }
  expect(keys.map(({ count }) => count)).toEqual(keys.map(({ count }) => count).sort((x, y) => y - x));
}

/** What one thread hands over of these refusals, if it may name so many keys. */
function countedBy(capacity: number, refused: readonly CounterKey[], of: PolicyIdentity = policy) {
  const counts = new LargestCounts<string, RefusedKey>(capacity);
  for (const key of refused) {
    const known = counts.entries.get(nameOf(key));
    if (known !== undefined) known.count += 1;
    else {
      const { a, b, c, d, isAddress } = key;
      const seen = isAddress ? null : { client, subject: null, route: null };
      counts.enter(nameOf(key), { key: { a, b, c, d, isAddress }, count: 1, error: 0, seen });
    }
  }
  counts.prune();
  return { keys: [...counts.entries.values()].map((key) => ({ ...key, policy: of })), floor: counts.floor };
}

function refuse(refused: RefusedKeys, key: CounterKey, atMs = 0, of: PolicyIdentity = policy): void {
  refused.add(countedBy(1, [key], of), atMs);
}

/** Often the same few keys, so that counts differ. */
const some = fc.array(fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: keys.length - 1 })), { maxLength: 400 });

test("a count is never too low, its error bounds it, and a name with more than its share is there", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), some, (capacity, refused) => {
      const { keys: told, floor } = countedBy(
        capacity,
        refused.map((i) => keyAt(i)),
      );
      const exact = new Exact();
      for (const i of refused) exact.add(keyAt(i));
      expectBounds(
        told.sort((x, y) => y.count - x.count),
        exact,
      );
      expect(told.length).toBe(Math.min(capacity, exact.counts.size));
      expect(floor).toBeGreaterThanOrEqual(exact.mostBeside(told));
      // No entry can have more than its share in error.
      for (const { error } of told) expect(error).toBeLessThanOrEqual(exact.all / capacity);
      expect(floor).toBeLessThanOrEqual(exact.all / capacity);
    }),
    runs(1_000),
  );
});

test("the same holds of two generations, and of what several threads hand over", () => {
  const portion = fc.record({ capacity: fc.integer({ min: 1, max: 30 }), refused: some, isNow: fc.boolean() });
  const portions = fc.array(portion, { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 30 }), portions, (capacity, all) => {
      const exact = new Exact();
      const refused = new RefusedKeys(capacity);
      let floors = 0;
      for (const { capacity, refused: indexes, isNow } of all.toSorted((x, y) => Number(x.isNow) - Number(y.isNow))) {
        const list = indexes.map((i) => keyAt(i));
        const counted = countedBy(capacity, list);
        refused.add(counted, isNow ? generationMs : 0);
        for (const key of list) exact.add(key);
        floors += counted.floor;
      }
      const told = refused.largest(policy.name, generationMs);
      expectBounds(told, exact);
      const most = floors + (2 * exact.all) / capacity;
      for (const { error } of told) expect(error).toBeLessThanOrEqual(most);
      expect(exact.mostBeside(told)).toBeLessThanOrEqual(most);
    }),
    runs(500),
  );
});

describe("of many refusals", () => {
  /** A million, or a tenth of them in `npm test`. */
  const refusals = inFullOr(1_000_000, 100_000);
  /** A generator that is the same in each run. */
  const randomOf = (seed: number) => {
    let state = seed;
    return (): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
      return (state >>> 0) / 2 ** 32;
    };
  };

  /** Numbers from 0 on, each with a probability that is the inverse of its rank. */
  const zipf = (distinct: number, random: () => number) => (): number =>
    Math.min(distinct - 1, Math.floor(distinct ** random()) - 1);

  /** As two threads hand over, of which each has so many refusals in a second. */
  function inBatches(
    refused: RefusedKeys,
    keys: Iterable<CounterKey>,
    size: number,
    atMs: (i: number) => number,
  ): void {
    let batch: CounterKey[] = [];
    let i = 0;
    for (const key of keys) {
      batch.push(key);
      i += 1;
      if (batch.length < size && i < refusals) continue;
      refused.add(countedBy(1_000, batch), atMs(i));
      batch = [];
    }
  }

  test.each([1_000, 20_000])(
    "the true first 20 of keys under a Zipf distribution are told first, of %i a second",
    (size) => {
      const next = zipf(refusals, randomOf(7));
      const refused = new RefusedKeys(1_000);
      const exact = new Uint32Array(refusals);
      const ranks = Array.from({ length: refusals }, next);
      for (const rank of ranks) exact[rank] = (exact[rank] ?? 0) + 1;
      inBatches(refused, ranks.map(addressOf), size, (i) => (i < refusals / 2 ? 0 : generationMs));
      const keys = refused.largest(policy.name, generationMs);
      const byCount = Array.from(exact.keys()).sort((x, y) => (exact[y] ?? 0) - (exact[x] ?? 0));
      expect(new Set(keys.slice(0, 20).map(({ key }) => key.b))).toEqual(new Set(byCount.slice(0, 20)));
      for (const { key, count, error } of keys) {
        const truth = exact[key.b] ?? 0;
        expect([count >= truth, count - error <= truth]).toEqual([true, true]);
      }
    },
  );

  test("of keys that are refused as often as each other, no count is off by more than the share of an entry", () => {
    const random = randomOf(3);
    const refused = new RefusedKeys(1_000);
    inBatches(
      refused,
      Array.from({ length: refusals }, () => addressOf(Math.floor(random() * 5_000))),
      refusals,
      () => 0,
    );
    const keys = refused.largest(policy.name, 0);
    expect(keys).toHaveLength(1_000);
    const share = refusals / 1_000;
    for (const { count, error } of keys) expect([count <= 1.1 * share, error <= share]).toEqual([true, true]);
  });

  test("a flood of keys that come once takes no more memory, and does not hide one that comes often", () => {
    const refused = new RefusedKeys(1_000);
    const often = keyAt(1);
    const flood = Array.from({ length: refusals }, (_, i) => (i % 500 === 0 ? [often, addressOf(i)] : [addressOf(i)]));
    inBatches(refused, flood.flat(), 10_000, () => 0);
    expect(refused.size).toBeLessThan(2_000);
    const [first] = refused.largest(policy.name, 0);
    expect(first).toMatchObject({ key: { a: often.a, b: often.b, c: often.c, d: often.d } });
    const truth = refusals / 500;
    expect([Number(first?.count) >= truth, Number(first?.count) - Number(first?.error) <= truth]).toEqual([true, true]);
    expect(first?.error).toBeLessThanOrEqual(refusals / 500);
  });
});

test("at most 1,000 keys are told, those with the most refusals", () => {
  const refused = new RefusedKeys(2_000);
  const keys = Array.from({ length: 1_500 }, (_, i) => new Array(i < 990 ? 5 : 3).fill(addressOf(i)));
  refused.add(countedBy(2_000, keys.flat()), 0);
  const told = refused.largest(policy.name, 0);
  expect([told.length, told[989]?.count, told[990]?.count]).toEqual([1_000, 5, 3]);
});

test("a refusal is told for this quarter of an hour and the next one, and no longer", () => {
  const refused = new RefusedKeys(10);
  const counts = (nowMs: number): number[] => refused.largest(policy.name, nowMs).map(({ count }) => count);
  refuse(refused, keyAt(1), generationMs - 1);
  refuse(refused, keyAt(1), generationMs);
  expect(counts(2 * generationMs - 1)).toEqual([2]);
  expect(counts(2 * generationMs)).toEqual([1]);
  expect(counts(3 * generationMs)).toEqual([]);
  expect(refused.size).toBe(0);
  refuse(refused, keyAt(1), 3 * generationMs);
  expect(counts(5 * generationMs)).toEqual([]);
});

test("a policy keeps its keys while a reload continues it, and loses them with another key", () => {
  const refused = new RefusedKeys(10);
  const size = (): number => refused.largest(policy.name, generationMs).length;
  refuse(refused, keyAt(1));
  refuse(refused, keyAt(2), generationMs, { ...policy });
  expect(size()).toBe(2);
  refuse(refused, keyAt(2), generationMs, { ...policy, key: [{ kind: "route" }] });
  expect(size()).toBe(1);
  for (let i = 0; i < 100; i += 1) refuse(refused, keyAt(1), generationMs, { ...policy, name: `p${i}` });
  expect(size()).toBe(0);
  expect(refused.size).toBe(64);
});

test("what a thread could not name is added to the counts of all policies, and to their errors", () => {
  const refused = new RefusedKeys(10);
  refuse(refused, keyAt(1));
  refused.add({ ...countedBy(10, [keyAt(2), keyAt(2)], { ...policy, name: "other" }), floor: 2 }, 0);
  const told = (name: string) => refused.largest(name, 0).map(({ count, error }) => [count, error]);
  expect([told(policy.name), told("other")]).toEqual([[[3, 2]], [[2, 0]]]);
});
