// What a table keeps where requests cost several units, units are given back, and the limit of a key changes: the same
// as a list of all units that were ever admitted.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SlidingWindow } from "../../src/core/sliding-window.ts";
import { WindowTable } from "../../src/limits/window-table.ts";
import { runs, scaled } from "../support/runs.ts";
import { justBefore } from "./float.ts";

const windowMs = 100;

/** Every unit by its key; one that was given back is removed. */
class UnitLog {
  readonly #atMs = new Map<string, number[]>();

  ask(key: string, limit: number, units: number, nowMs: number): [fits: boolean, remaining: number, resetMs: number] {
    const counted = this.counted(key, nowMs);
    const excess = counted.length + units - limit;
    if (excess <= 0) return [true, -excess, (counted[0] ?? nowMs) + windowMs];
    return [false, Math.max(0, limit - counted.length), (counted[excess - 1] ?? nowMs) + windowMs];
  }

  charge(key: string, units: number, nowMs: number): void {
    this.#atMs.set(key, [...(this.#atMs.get(key) ?? []), ...Array.from({ length: units }, () => nowMs)]);
  }

  giveBack(key: string, units: number, atMs: number): void {
    const all = this.#atMs.get(key) ?? [];
    const first = all.indexOf(atMs);
    if (first !== -1) this.#atMs.set(key, all.toSpliced(first, units));
  }

  counted(key: string, nowMs: number): number[] {
    return (this.#atMs.get(key) ?? []).filter((atMs) => nowMs < atMs + windowMs);
  }
}

interface Charge {
  readonly key: string;
  readonly limit: number;
  readonly units: number;
  readonly atMs: number;
}

const steps = fc.array(
  fc.record({
    gap: fc.oneof(
      { weight: 3, arbitrary: fc.constant(0) },
      { weight: 3, arbitrary: fc.double({ min: 0, max: 30, noNaN: true }) },
      { weight: 1, arbitrary: fc.constantFrom(100, 250) },
      { weight: 2, arbitrary: fc.constantFrom("to the reset", "to just before the reset") },
    ),
    key: fc.constantFrom("a", "a", "b"),
    limit: fc.constantFrom(3, 10, 10, 10, 25),
    units: fc.constantFrom(1, 1, 2, 3, 7, 12),
    /** Which of the charges so far is given back first; null: none. */
    givesBack: fc.option(fc.nat({ max: 40 }), { freq: 3 }),
  }),
  { minLength: 5, maxLength: 100, size: "max" },
);

test("equals a list of units, whatever requests cost, is given back, and the limit is", () => {
  let refused = 0;
  let givenBack = 0;
  fc.assert(
    fc.property(steps, (script) => {
      const table = new WindowTable(100, () => new SlidingWindow());
      const log = new UnitLog();
      const charges: Charge[] = [];
      let nowMs = 1000;
      let resetMs = nowMs;
      for (const { gap, key, limit, units, givesBack } of script) {
        nowMs = Math.max(
          nowMs,
          typeof gap === "number" ? nowMs + gap : gap === "to the reset" ? resetMs : justBefore(resetMs),
        );
        const [charge] = givesBack === null ? [] : charges.splice(givesBack, 1);
        if (charge !== undefined) {
          givenBack += 1;
          table.giveBack(charge.key, charge.limit, charge.units, charge.atMs);
          log.giveBack(charge.key, charge.units, charge.atMs);
        }
        const fits = table.ask(key, limit, units, windowMs, nowMs);
        const expected = log.ask(key, limit, units, nowMs);
        const isEqual = fits === expected[0] && table.remaining === expected[1] && table.resetMs === expected[2];
        if (!isEqual) expect([fits, table.remaining, table.resetMs]).toEqual(expected);
        resetMs = table.resetMs;
        if (!fits) refused += 1;
        else {
          charges.push({ key, limit, units, atMs: table.charge() });
          log.charge(key, units, nowMs);
        }
        table.peek(key, limit, windowMs, nowMs);
        const counted = log.counted(key, nowMs);
        expect(table.remaining).toBe(Math.max(0, limit - counted.length));
        expect(table.resetMs).toBe((counted[Math.max(0, counted.length - limit)] ?? nowMs) + windowMs);
      }
    }),
    runs(1000),
  );
  expect(refused).toBeGreaterThan(scaled(5000));
  expect(givenBack).toBeGreaterThan(scaled(5000));
});

describe("units", () => {
  /** Admits or refuses, as a limiter does. */
  function take(table: WindowTable<SlidingWindow>, key: string, limit: number, units: number, nowMs: number): boolean {
    const fits = table.ask(key, limit, units, windowMs, nowMs);
    if (fits) table.charge();
    return fits;
  }

  const create = (maxKeys = 100) => new WindowTable(maxKeys, () => new SlidingWindow());

  test("a request that can never fit is refused, with an empty table too, and leaves nothing", () => {
    const table = create();
    expect(take(table, "a", 5, 6, 0)).toBe(false);
    expect(table.resetMs).toBe(windowMs);
    expect(table.stats().clients).toBe(0);
  });

  test("asking without charging leaves nothing", () => {
    const table = create();
    for (let i = 0; i < 10; i += 1) expect(table.ask("a", 5, 5, windowMs, i)).toBe(true);
    expect(table.stats().clients).toBe(0);
  });

  test("an instant before the newest one of the key counts as the newest", () => {
    const table = create();
    expect(take(table, "a", 3, 1, 50)).toBe(true);
    expect(table.ask("a", 3, 1, windowMs, 40)).toBe(true);
    expect(table.charge()).toBe(50);
    table.giveBack("a", 3, 1, 50);
    table.peek("a", 3, windowMs, 149);
    expect(table.remaining).toBe(2);
    table.peek("a", 3, windowMs, 150);
    expect(table.remaining).toBe(3);
  });

  test("a key whose units were all given back takes no memory, wherever the table keeps it", () => {
    const table = create();
    // With quota left, exhausted, and released again.
    for (const [units, atMs] of [
      [1, 0],
      [5, 1000],
      [5, 2000],
    ] as const) {
      expect(table.ask("a", 5, units, windowMs, atMs)).toBe(true);
      table.charge();
      expect(table.stats().clients).toBe(1);
      if (atMs === 2000) table.peek("b", 5, windowMs, 2100);
      table.giveBack("a", 5, units, atMs);
      expect(table.stats().clients).toBe(0);
    }
  });

  test("a key for which no other request fits is not forgotten for one with quota left, though units are left", () => {
    const table = create(3);
    for (let i = 0; i < 2; i += 1) expect(take(table, "exhausted", 10, 4, i)).toBe(true);
    for (let i = 0; i < 100; i += 1) take(table, `flood ${i}`, 10, 4, 10);
    expect(take(table, "exhausted", 10, 4, 20)).toBe(false);
    expect(table.remaining).toBe(2);
  });

  test("a key that has units back is forgotten before one that is exhausted", () => {
    const table = create(2);
    table.ask("a", 2, 2, windowMs, 0);
    table.charge();
    table.ask("b", 2, 2, windowMs, 1);
    const chargedMs = table.charge();
    expect(take(table, "b", 2, 1, 1)).toBe(false);
    table.giveBack("b", 2, 1, chargedMs);
    expect(take(table, "c", 2, 1, 2)).toBe(true);
    table.peek("a", 2, windowMs, 2);
    expect(table.remaining).toBe(0);
    table.peek("b", 2, windowMs, 2);
    expect(table.remaining).toBe(2);
  });
});

describe("a limit or window that a reload has changed", () => {
  const take = (
    table: WindowTable<SlidingWindow>,
    key: string,
    limit: number,
    window: number,
    nowMs: number,
  ): boolean => {
    const fits = table.ask(key, limit, 1, window, nowMs);
    if (fits) table.charge();
    return fits;
  };

  test("60 of 100, then a limit of 50: refused until the eleventh expires; back to 100: 40 left", () => {
    const table = new WindowTable(10, () => new SlidingWindow());
    for (let i = 0; i < 60; i += 1) expect(take(table, "a", 100, 1000, i)).toBe(true);
    expect(take(table, "a", 50, 1000, 100)).toBe(false);
    expect([table.remaining, table.resetMs]).toEqual([0, 1010]);
    table.peek("a", 50, 1000, 100);
    expect([table.remaining, table.resetMs]).toEqual([0, 1010]);
    table.peek("a", 100, 1000, 100);
    expect(table.remaining).toBe(40);
    expect(take(table, "a", 50, 1000, justBefore(1010))).toBe(false);
    expect(take(table, "a", 50, 1000, 1010)).toBe(true);
  });

  test("a longer window: what was exhausted stays so for longer and outlives a flood, and nothing expires too early", () => {
    const table = new WindowTable(3, () => new SlidingWindow());
    for (const atMs of [0, 10]) expect(take(table, "exhausted", 2, 100, atMs)).toBe(true);
    for (let i = 0; i < 50; i += 1) expect(take(table, `flood ${i}`, 2, 1000, 200 + i)).toBe(true);
    expect(take(table, "exhausted", 2, 1000, 999)).toBe(false);
    expect(take(table, "exhausted", 2, 1000, 1000)).toBe(true);
  });

  test("a lower limit: a key that is over it and has not asked since is not forgotten for one with quota left", () => {
    const table = new WindowTable(20, () => new SlidingWindow());
    for (let i = 0; i < 8; i += 1) {
      for (let n = 0; n < 6; n += 1) expect(take(table, `over ${i}`, 10, 1000, 0)).toBe(true);
    }
    for (let i = 0; i < 100; i += 1) expect(take(table, `flood ${i}`, 5, 1000, 10)).toBe(true);
    for (let i = 0; i < 8; i += 1) expect(take(table, `over ${i}`, 5, 1000, 20)).toBe(false);
    expect(table.stats()).toEqual({ clients: 20, capacity: 20, evictedExpired: 0, evictedLive: 88 });
  });

  test("a shorter window: what has expired by it goes first", () => {
    const table = new WindowTable(2, () => new SlidingWindow());
    for (const key of ["a", "a", "b"]) take(table, key, 2, 1000, key === "a" ? 0 : 95);
    expect(take(table, "c", 2, 100, 100)).toBe(true);
    expect(table.stats()).toEqual({ clients: 2, capacity: 2, evictedExpired: 1, evictedLive: 0 });
  });
});
