// The sketch of refused keys beside exact counts: never too low, and never off by more than it says.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import {
  generationMs,
  type KeySummary,
  type KeyWords,
  merged,
  RefusedKeys,
  Sketch,
} from "../../../src/telemetry/recent/sketch.ts";
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

function expectBounds({ keys, floor }: KeySummary, exact: Exact): void {
  for (const { key, count, error } of keys) {
    expect(count).toBeGreaterThanOrEqual(exact.of(key));
    expect(count - error).toBeLessThanOrEqual(exact.of(key));
  }
  expect(floor).toBeGreaterThanOrEqual(exact.mostBeside(keys));
  expect(keys.map(({ count }) => count)).toEqual(keys.map(({ count }) => count).sort((x, y) => y - x));
}

/** Often the same few keys, so that counts differ. */
const some = fc.array(fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: keys.length - 1 })), { maxLength: 400 });

test("a count is never too low, its error bounds it, and a key with more than its share is there", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), some, (capacity, refused) => {
      const sketch = new Sketch(capacity);
      const exact = new Exact();
      for (const i of refused) {
        sketch.add(keyAt(i), client, null, null);
        exact.add(keyAt(i));
      }
      const told = Array.from({ length: sketch.size }, (_, slot) => ({
        ...{ key: sketch.keyOf(slot), count: sketch.countOf(slot), error: sketch.errorOf(slot) },
        seen: sketch.seenOf(slot),
      }));
      expect(new Set(told.map(({ key }) => nameOf(key))).size).toBe(told.length);
      expectBounds({ keys: told.sort((x, y) => y.count - x.count), floor: sketch.floor }, exact);
      // All refusals are counted once, so no entry can have more than its share in error.
      expect(told.reduce((sum, { count }) => sum + count, 0)).toBe(exact.all);
      for (const { error } of told) expect(error).toBeLessThanOrEqual(exact.all / capacity);
      for (const { key } of told) expect(sketch.find(key)).not.toBe(-1);
    }),
    runs(1_000),
  );
});

test("the same holds of two generations, and of what several threads say together", () => {
  const thread = fc.record({ capacity: fc.integer({ min: 1, max: 30 }), before: some, now: some });
  fc.assert(
    fc.property(fc.array(thread, { minLength: 1, maxLength: 4 }), (threads) => {
      const exact = new Exact();
      const summaries = threads.map(({ capacity, before, now }) => {
        const refused = new RefusedKeys(capacity);
        for (const [list, atMs] of [
          [before, 0],
          [now, generationMs],
        ] as const) {
          for (const i of list) {
            refused.add(policy, keyAt(i), client, null, null, atMs);
            exact.add(keyAt(i));
          }
        }
        return refused.summary(policy.name, generationMs);
      });
      expectBounds(merged(summaries), exact);
      if (summaries[0] !== undefined && threads.length === 1) expectBounds(summaries[0], exact);
    }),
    runs(500),
  );
});

describe("of many refusals", () => {
  /** A million, or a fifth of them in `npm test`. */
  const refusals = inFullOr(1_000_000, 200_000);
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

  test.each([1, 2])("the true first 20 of keys under a Zipf distribution are told first, by %i threads", (threads) => {
    const next = zipf(refusals, randomOf(7));
    const sketches = Array.from({ length: threads }, () => new RefusedKeys(1_000));
    const exact = new Uint32Array(refusals);
    for (let i = 0; i < refusals; i += 1) {
      const rank = next();
      exact[rank] = (exact[rank] ?? 0) + 1;
      sketches[i % threads]?.add(policy, addressOf(rank), client, null, null, i < refusals / 2 ? 0 : generationMs);
    }
    const { keys } = merged(sketches.map((sketch) => sketch.summary(policy.name, generationMs)));
    const byCount = Array.from(exact.keys()).sort((x, y) => (exact[y] ?? 0) - (exact[x] ?? 0));
    expect(new Set(keys.slice(0, 20).map(({ key }) => key.b))).toEqual(new Set(byCount.slice(0, 20)));
    for (const { key, count, error } of keys) {
      const truth = exact[key.b] ?? 0;
      expect([count >= truth, count - error <= truth]).toEqual([true, true]);
    }
  });

  test("of keys that are refused as often as each other, no count is off by more than the share of an entry", () => {
    const random = randomOf(3);
    const refused = new RefusedKeys(1_000);
    for (let i = 0; i < refusals; i += 1)
      refused.add(policy, addressOf(Math.floor(random() * 5_000)), client, null, null, 0);
    const { keys, floor } = refused.summary(policy.name, 0);
    expect(keys).toHaveLength(1_000);
    const share = refusals / 1_000;
    expect(floor).toBeLessThanOrEqual(share);
    for (const { count, error } of keys) expect([count <= 1.1 * share, error <= share]).toEqual([true, true]);
  });

  test("a flood of keys that come once takes no more memory, and does not hide one that comes often", () => {
    const refused = new RefusedKeys(1_000);
    const often = keyAt(1);
    refused.add(policy, often, client, null, null, 0);
    const before = refused.bytes;
    for (let i = 0; i < refusals; i += 1) {
      refused.add(policy, addressOf(i), client, null, null, 0);
      if (i % 500 === 0) refused.add(policy, often, client, null, null, 0);
    }
    expect(refused.bytes).toBe(before);
    expect(before).toBeLessThan(2 * 100_000);
    const [first] = refused.summary(policy.name, 0).keys;
    expect(first).toMatchObject({ key: { a: often.a, b: often.b, c: often.c, d: often.d }, error: 0 });
    expect(first?.count).toBe(refusals / 500 + 1);
  });
});

test("at most 1,000 keys are told, and none that is left out has been refused more often than is said", () => {
  const refused = new RefusedKeys(2_000);
  for (let i = 0; i < 1_500; i += 1) {
    for (let times = 0; times < (i < 990 ? 5 : 3); times += 1) refused.add(policy, addressOf(i), client, null, null, 0);
  }
  const { keys, floor } = refused.summary(policy.name, 0);
  expect([keys.length, keys[989]?.count, keys[990]?.count, floor]).toEqual([1_000, 5, 3, 3]);
});

test("a refusal is told for this quarter of an hour and the next one, and no longer", () => {
  const refused = new RefusedKeys(10);
  const counts = (nowMs: number): number[] => refused.summary(policy.name, nowMs).keys.map(({ count }) => count);
  refused.add(policy, keyAt(1), client, null, null, generationMs - 1);
  refused.add(policy, keyAt(1), client, null, null, generationMs);
  // It ended before one that was counted first.
  refused.add(policy, keyAt(1), client, null, null, generationMs - 1);
  expect(counts(2 * generationMs - 1)).toEqual([3]);
  expect(counts(2 * generationMs)).toEqual([2]);
  expect(counts(3 * generationMs)).toEqual([]);
  expect(refused.bytes).toBe(0);
  refused.add(policy, keyAt(1), client, null, null, 3 * generationMs);
  expect(counts(5 * generationMs)).toEqual([]);
});

test("a key that is a hash is told with whose refusal brought it in, and an address without", () => {
  const refused = new RefusedKeys(1);
  const told = () => refused.summary(policy.name, 0).keys.map(({ seen }) => seen);
  refused.add(policy, keyAt(0), client, `alice${"é".repeat(40)}`, "/v2/", 0);
  refused.add(policy, keyAt(0), keyAt(1), "bob", null, 0);
  const { a, b, c, d } = client;
  const subject = `alice${"é".repeat(29)}`;
  expect(told()).toEqual([{ client: { a, b, c, d, isAddress: true }, subject, route: "/v2/" }]);
  refused.add(policy, keyAt(3), client, null, null, 0);
  expect(told()).toMatchObject([{ subject: null, route: null }]);
  refused.add(policy, keyAt(1), client, "carol", "/v2/", 0);
  expect(told()).toEqual([null]);
});

test("a policy keeps its keys while a reload continues it, and loses them with another key", () => {
  const refused = new RefusedKeys(10);
  const size = (): number => refused.summary(policy.name, 0).keys.length;
  refused.add(policy, keyAt(1), client, null, null, 0);
  refused.add({ ...policy, limit: 5 }, keyAt(2), client, null, null, 0);
  expect(size()).toBe(2);
  refused.add({ ...policy, key: [{ kind: "route" }] }, keyAt(2), client, null, null, 0);
  expect(size()).toBe(1);
  for (let i = 0; i < 100; i += 1) refused.add({ ...policy, name: `p${i}` }, keyAt(1), client, null, null, 0);
  expect(size()).toBe(0);
  expect(refused.bytes).toBeLessThan(64 * 2 * 2_000);
});
