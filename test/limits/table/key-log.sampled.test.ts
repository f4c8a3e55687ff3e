// The pairs of a key, against a plain list of them.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addPair,
  countUnits,
  eachPair,
  freePairs,
  instantOfUnit,
  joinNewest,
  newestPairAt,
  oldestInstant,
  removeUnits,
} from "../../../src/limits/table/key-log.ts";
import { keyLine } from "../../../src/limits/table/layout.ts";
import { runs, scaled } from "../../support/runs.ts";
import { createKey, createShard, freeLinesOf, type Pair, pairsOf, type RawShard, shard } from "./raw-shard.ts";

const unitsOf = (pairs: readonly Pair[]): number => pairs.reduce((sum, [, units]) => sum + units, 0);
const tick = (instant: number): number => instant >>> 0;

/** The word of a pair. */
function pairAt({ w }: RawShard, line: number, index: number): number {
  const words: number[] = [];
  eachPair(w, shard, line, (at) => words.push(at) > 0);
  return words[index] ?? 0;
}

/** One key of a shard, and what it should have. */
class Trial {
  readonly raw: RawShard;
  readonly line: number;
  pairs: Pair[] = [];

  constructor(raw: RawShard) {
    this.raw = raw;
    this.line = createKey(raw);
  }

  /** Returns false if pairs were merged. */
  add(instant: number, units: number, joins: boolean): boolean {
    const { raw, line, pairs } = this;
    const last = pairs.at(-1);
    if (joins && last !== undefined) {
      joinNewest(raw.w, shard, line, newestPairAt(raw.w, shard, line), instant | 0, units);
      this.pairs = [...pairs.slice(0, -1), [instant, last[1] + units]];
      return true;
    }
    this.pairs = [...pairs, [instant, units]];
    return addPair(raw.w, shard, line, instant | 0, units);
  }

  count(now: number, window: number): number {
    this.pairs = this.pairs.filter(([instant]) => now - instant < window);
    return countUnits(this.raw.w, shard, this.line, { now: now | 0, window });
  }

  remove(index: number, units: number): void {
    const [instant, count] = this.pairs[index] ?? [0, 0];
    const left = removeUnits(this.raw.w, shard, this.line, pairAt(this.raw, this.line, index), units);
    const kept: Pair[] = count > units ? [[instant, count - units]] : [];
    this.pairs = this.pairs.toSpliced(index, 1, ...kept);
    expect(left).toBe(unitsOf(this.pairs));
  }

  clear(): void {
    const { w } = this.raw;
    freePairs(w, shard, this.line);
    for (const word of [keyLine.about, keyLine.units, keyLine.oldest]) w[this.line + word] = 0;
    this.pairs = [];
  }

  check(): void {
    const { raw, line, pairs } = this;
    const stored = pairsOf(raw, line);
    const isEqual =
      stored.length === pairs.length &&
      stored.every(([instant, units], i) => instant === tick(pairs[i]?.[0] ?? 0) && units === pairs[i]?.[1]);
    if (!isEqual) expect(stored).toEqual(pairs.map(([instant, units]) => [tick(instant), units]));
    expect(raw.w[line + keyLine.units]).toBe(unitsOf(pairs));
    const [first] = pairs;
    if (first === undefined) return;
    expect(tick(oldestInstant(raw.w, line))).toBe(tick(first[0]));
    const all = pairs.flatMap(([instant, units]) => Array.from({ length: units }, () => instant));
    for (const unit of [1, Math.ceil(all.length / 2), all.length]) {
      expect(tick(instantOfUnit(raw.w, shard, line, unit))).toBe(tick(all[unit - 1] ?? 0));
    }
  }

  /** Blocks that the pairs may take: one that begins anywhere, and then full ones. */
  get mostBlocks(): number {
    return this.pairs.length < 2 ? 1 : Math.ceil(this.pairs.length / 7) + 1;
  }
}

const steps = fc.array(
  fc.record({
    key: fc.nat({ max: 1 }),
    does: fc.constantFrom("add", "add", "add", "add", "add", "join", "count", "remove", "remove", "clear"),
    gap: fc.oneof(fc.constantFrom(0, 1), fc.nat({ max: 30 })),
    units: fc.integer({ min: 1, max: 4 }),
    which: fc.nat({ max: 99 }),
    times: fc.constantFrom(1, 1, 1, 5, 20),
  }),
  { minLength: 10, maxLength: 80, size: "max" },
);

/** Where instants begin: also where a tick of 32 bits changes its sign, and where it begins again. */
const begins = fc.constantFrom(0, 2 ** 31 - 200, 2 ** 32 - 200);
const window = 300;

test("equals a list of pairs, whatever is added, joined, expires or is given back, and leaks no line", () => {
  let longest = 0;
  fc.assert(
    fc.property(steps, begins, (script, begin) => {
      const raw = createShard(400);
      const trials = [new Trial(raw), new Trial(raw)];
      let now = begin;
      for (const { key, does, gap, units, which, times } of script) {
        const trial = trials[key] ?? trials[0];
        for (let i = 0; i < times && trial !== undefined; i += 1) {
          now += gap;
          const { pairs } = trial;
          if (does === "add" || does === "join") expect(trial.add(now, units, does === "join")).toBe(true);
          else if (does === "count") expect(trial.count(now, window)).toBe(unitsOf(trial.pairs));
          else if (does === "remove" && pairs.length > 0) trial.remove((which + i) % pairs.length, units);
          else if (does === "clear" && which < 10) trial.clear();
        }
        for (const one of trials) one.check();
        longest = Math.max(longest, ...trials.map(({ pairs }) => pairs.length));
        const used = 400 - 2 - freeLinesOf(raw);
        expect(used).toBeLessThanOrEqual(trials.reduce((sum, { mostBlocks }) => sum + mostBlocks, 0));
      }
      for (const trial of trials) trial.clear();
      expect(freeLinesOf(raw)).toBe(400 - 2);
    }),
    runs(1000, 40),
  );
  expect(longest).toBeGreaterThan(60);
});

test("without a free block, units count for longer and never shorter, and none is lost", () => {
  let merged = 0;
  fc.assert(
    fc.property(steps, fc.nat({ max: 4 }), (script, blocks) => {
      const raw = createShard(2 + blocks);
      const trials = [new Trial(raw), new Trial(raw)];
      let now = 0;
      for (const { key, gap, units, times, does } of script) {
        const trial = trials[key] ?? trials[0];
        for (let i = 0; i < times && trial !== undefined; i += 1) {
          now += gap;
          if (does === "count") expect(trial.count(now, window)).toBeGreaterThanOrEqual(unitsOf(trial.pairs));
          else if (!trial.add(now, units, false)) merged += 1;
          const stored = pairsOf(raw, trial.line);
          expect(raw.w[trial.line + keyLine.units]).toBe(unitsOf(stored));
          // Of the newest units, as many as there should be are at least as young as they should be.
          let left = unitsOf(stored) - unitsOf(trial.pairs);
          expect(left).toBeGreaterThanOrEqual(0);
          const young = stored.flatMap(([instant, count]) => {
            const skipped = Math.min(left, count);
            left -= skipped;
            return Array.from({ length: count - skipped }, () => instant);
          });
          const should = trial.pairs.flatMap(([instant, count]) => Array.from({ length: count }, () => instant));
          if (should.some((instant, n) => (young[n] ?? -1) < instant)) expect(young).toEqual(should);
        }
      }
    }),
    runs(300, 40),
  );
  expect(merged).toBeGreaterThan(scaled(1000, 40));
});

describe("merging", () => {
  test("joins the two neighbours that are closest, with the later instant", () => {
    const raw = createShard(1);
    const trial = new Trial(raw);
    for (const instant of [0, 100, 103, 200]) expect(trial.add(instant, 2, false)).toBe(true);
    expect(trial.add(300, 1, false)).toBe(false);
    expect(pairsOf(raw, trial.line)).toEqual([
      [0, 2],
      [103, 4],
      [200, 2],
      [300, 1],
    ]);
  });

  test("keeps what is in blocks, and joins the last pairs only", () => {
    const raw = createShard(2);
    const trial = new Trial(raw);
    for (let i = 0; i < 7; i += 1) expect(trial.add(10 * i, 1, false)).toBe(true);
    // The block has six pairs at most with these; the buffer is full after it.
    let alone = 0;
    for (let i = 7; i < 40; i += 1) if (trial.add(10 * i, 1, false)) alone += 1;
    expect(alone).toBeLessThan(5);
    const stored = pairsOf(raw, trial.line);
    expect(stored.slice(0, 4).map(([instant]) => instant)).toEqual([0, 10, 20, 30]);
    expect(unitsOf(stored)).toBe(40);
    expect(stored.at(-1)?.[0]).toBe(390);
  });
});

test("units that are given back leave no pair behind, though an older pair still counts", () => {
  const raw = createShard(200);
  const trial = new Trial(raw);
  trial.add(0, 1, false);
  // Three requests under way at any time.
  for (let i = 1; i <= 1000; i += 1) {
    trial.add(i, 1, false);
    if (trial.pairs.length > 3) trial.remove(1, 1);
  }
  trial.check();
  expect(trial.pairs).toHaveLength(3);
  expect(freeLinesOf(raw)).toBeGreaterThan(195);
});
