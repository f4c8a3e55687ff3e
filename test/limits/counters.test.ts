// What policies of each kind count, as timelines.

import { describe, expect, test } from "vitest";
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import type { SlotRules } from "../../src/limits/table/key-log.ts";
import { FakeClock } from "../support/clock.ts";
import { type Asking, askCalendar, askConcurrency, askSliding } from "./asking.ts";
import { keyOf, smallTable } from "./small-table.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const midnight = Date.UTC(2026, 2, 10);

const slot = 7;

function rules(kind: SlotRules["kind"], limit: number, windowMs = 0): SlotRules {
  return { kind, windowMs, limit, cost: 1 };
}

/** Asks and, if that is possible, charges. Returns the answer, and what `giveBack` needs. */
function take(counters: Asking, text: string, limit: number, nowMs: number, units = 1) {
  const key = keyOf(text);
  counters.select(key, key);
  const fits = counters.ask(limit, units, nowMs);
  const { remaining, resetMs } = counters;
  return { fits, remaining, untilResetMs: resetMs - nowMs, charged: fits ? counters.charge() : Number.NaN };
}

function peek(counters: Asking, text: string, limit: number, nowMs: number) {
  counters.peek(keyOf(text), keyOf(text), limit, nowMs);
  const { remaining, resetMs } = counters;
  return { remaining, untilResetMs: resetMs - nowMs };
}

function giveBack(counters: Asking, text: string, limit: number, units: number, charged: number): void {
  counters.giveBack(keyOf(text), keyOf(text), limit, units, charged);
}

function figuresOf(table: CounterTable) {
  return table.figures().bySlot[slot];
}

type Per = "hour" | "day" | "month";

function calendar(per: Per = "day", startWallMs = midnight + 1000, limit = 3) {
  const clock = new FakeClock();
  clock.wallOffsetMs = startWallMs - clock.nowMs;
  const table = smallTable();
  /** The counters after a reload. */
  const reloaded = (next: Per, previous: Asking | null): Asking =>
    askCalendar(table, slot, rules("calendar", limit), { per: next, timezone: "UTC" }, clock, previous);
  return { clock, table, reloaded, counters: reloaded(per, null) };
}

describe("a calendar quota", () => {
  // What happens, then what a request of one unit is told: fits, remaining, seconds until the reset.
  const rows: readonly (readonly [
    advance: number,
    stepWall: number,
    fits: boolean,
    remaining: number,
    until: number,
  ])[] = [
    [0, 0, true, 2, dayMs - 1000],
    [1000, 0, true, 1, dayMs - 2000],
    [dayMs - 3000, 0, true, 0, 1000],
    [0, 0, false, 0, 1000],
    [999, 0, false, 0, 1],
    // At the border all is back, and it lasts a day.
    [1, 0, true, 2, dayMs],
    [1, 0, true, 1, dayMs - 1],
    [1, 0, true, 0, dayMs - 2],
    // The wall clock goes back across the border: nothing is refilled, nor when it passes the border again.
    [0, -2000, false, 0, dayMs - 2 + 2000],
    [1998, 0, false, 0, dayMs],
    [2, 0, false, 0, dayMs - 2],
    // It goes back by a month: nothing is refilled. The day ends when it was to end, and the longest day later.
    [0, -30 * dayMs, false, 0, dayMs - 2002 + 25 * hourMs],
    // It is right again, and then back again.
    [0, 30 * dayMs, false, 0, dayMs - 2],
    [0, -30 * dayMs, false, 0, dayMs - 2002 + 25 * hourMs],
    [dayMs - 2003 + 25 * hourMs, 0, false, 0, 1],
    // Without the step back it would be an hour after midnight. From now on, days end as if there had been none.
    [1, 0, true, 2, 23 * hourMs],
    [23 * hourMs, 0, true, 2, 24 * hourMs],
    // It goes forward, but not to where it has been: nothing is refilled.
    [0, 2 * dayMs, true, 1, 24 * hourMs],
    // It goes forward by more, as after a suspension: a new period.
    [0, 31 * dayMs + 2000, true, 2, 24 * hourMs],
  ];

  test("three a day, on one timeline with steps of the wall clock", () => {
    const { clock, counters } = calendar();
    for (const [i, [advanceMs, stepMs, fits, remaining, untilResetMs]] of rows.entries()) {
      clock.advance(advanceMs);
      clock.stepWall(stepMs);
      expect(take(counters, "a", 3, clock.nowMs), `row ${i}`).toMatchObject({ fits, remaining, untilResetMs });
    }
  });

  test("a period that begins just before a border ends there, whatever the fraction of a second at which the table began", () => {
    for (const startMs of [0, 300, 499, 501, 700, 999]) {
      const { clock, counters } = calendar("hour", midnight + startMs);
      take(counters, "a", 3, clock.nowMs);
      clock.advance(2 * dayMs - startMs - 250);
      expect(take(counters, "a", 3, clock.nowMs), `${startMs}`).toMatchObject({ remaining: 2, untilResetMs: 250 });
      clock.advance(250);
      expect(take(counters, "a", 3, clock.nowMs), `${startMs}`).toMatchObject({ remaining: 2, untilResetMs: hourMs });
    }
  });

  test("a look charges nothing and shows the end of the period, also for a key that is not stored", () => {
    const { clock, table, counters } = calendar();
    take(counters, "a", 3, clock.nowMs, 2);
    expect(peek(counters, "a", 3, clock.nowMs)).toEqual({ remaining: 1, untilResetMs: dayMs - 1000 });
    expect(peek(counters, "b", 3, clock.nowMs)).toEqual({ remaining: 3, untilResetMs: dayMs - 1000 });
    expect(counters.unspentResetMs(clock.nowMs) - clock.nowMs).toBe(dayMs - 1000);
    expect(figuresOf(table)?.keys).toBe(1);
  });

  test("a unit is given back in its period only", () => {
    const { clock, counters } = calendar();
    const first = take(counters, "a", 1, clock.nowMs);
    expect(take(counters, "a", 1, clock.nowMs).fits).toBe(false);
    giveBack(counters, "a", 1, 1, first.charged);
    const second = take(counters, "a", 1, clock.nowMs);
    expect(second.fits).toBe(true);
    clock.advance(dayMs);
    expect(take(counters, "a", 1, clock.nowMs).fits).toBe(true);
    giveBack(counters, "a", 1, 1, second.charged);
    expect(take(counters, "a", 1, clock.nowMs).fits).toBe(false);
  });

  test("a flood of keys gives an exhausted one nothing back, and a new period forgets the old one's keys first", () => {
    const { clock, table, counters } = calendar("day", midnight);
    for (let i = 0; i < 3; i += 1) take(counters, "exhausted", 3, clock.nowMs);
    for (let i = 0; i < 20_000; i += 1) {
      if (!take(counters, `flood ${i}`, 3, clock.nowMs).fits) throw new Error(`flood ${i} was refused`);
    }
    expect(take(counters, "exhausted", 3, clock.nowMs).fits).toBe(false);
    const { keys = 0, evictedExpired, evictedLive = 0 } = figuresOf(table) ?? {};
    expect(keys).toBeGreaterThan(10_000);
    expect([evictedExpired, evictedLive]).toEqual([0, 20_001 - keys]);
    clock.advance(dayMs);
    expect(take(counters, "exhausted", 3, clock.nowMs)).toMatchObject({ fits: true, remaining: 2 });
    for (let i = 0; i < 2000; i += 1) take(counters, `next ${i}`, 3, clock.nowMs);
    // Only a few keys are looked at, so now and then none of the old period is among them.
    const ofNext = {
      expired: figuresOf(table)?.evictedExpired ?? 0,
      live: (figuresOf(table)?.evictedLive ?? 0) - evictedLive,
    };
    expect(ofNext.expired).toBeGreaterThan(1500);
    expect(ofNext.live).toBeLessThan(50);
  });

  test("goes on after a reload with another limit or period, and a limiter that is never used changes nothing", () => {
    const { clock, table, reloaded, counters } = calendar("hour");
    for (let i = 0; i < 3; i += 1) take(counters, "a", 5, clock.nowMs);
    reloaded("month", counters);
    expect(take(counters, "b", 5, clock.nowMs).untilResetMs).toBe(3_600_000 - 1000);
    const daily = reloaded("day", counters);
    expect(take(daily, "a", 5, clock.nowMs)).toMatchObject({ fits: true, remaining: 1, untilResetMs: dayMs - 1000 });
    expect(figuresOf(table)?.keys).toBe(2);
    clock.advance(3_600_000);
    expect(take(daily, "a", 5, clock.nowMs)).toMatchObject({ fits: true, remaining: 0 });
    // What still counts with the old limiter counts in the period of the new one.
    expect(take(counters, "a", 5, clock.nowMs)).toMatchObject({ fits: false, untilResetMs: dayMs - 3_601_000 });
  });

  test("a period that has ended before a reload is refilled by it, once", () => {
    const { clock, reloaded, counters } = calendar("hour");
    for (let i = 0; i < 5; i += 1) take(counters, "a", 5, clock.nowMs);
    clock.advance(3_600_000);
    const daily = reloaded("day", counters);
    for (let i = 0; i < 5; i += 1) expect(take(daily, "a", 5, clock.nowMs).fits).toBe(true);
    expect(take(daily, "a", 5, clock.nowMs).fits).toBe(false);
  });
});

describe("concurrency", () => {
  const create = (table: CounterTable): Asking => askConcurrency(table, slot, rules("concurrency", 2));

  test("a slot is free again when it is given back, and a key without slots takes no memory", () => {
    const table = smallTable();
    const counters = create(table);
    expect(take(counters, "a", 2, 0)).toMatchObject({ fits: true, remaining: 1, untilResetMs: 1000 });
    expect(take(counters, "a", 2, 5)).toMatchObject({ fits: true, remaining: 0, untilResetMs: 1000 });
    expect(take(counters, "a", 2, 1_000_000)).toMatchObject({ fits: false, remaining: 0, untilResetMs: 1000 });
    expect(take(counters, "b", 2, 0)).toMatchObject({ fits: true, remaining: 1 });
    expect(figuresOf(table)?.keys).toBe(2);
    giveBack(counters, "a", 2, 1, 0);
    expect(peek(counters, "a", 2, 7)).toEqual({ remaining: 1, untilResetMs: 1000 });
    expect(take(counters, "a", 2, 0)).toMatchObject({ fits: true, remaining: 0 });
    for (const key of ["a", "a", "b"]) giveBack(counters, key, 2, 1, 0);
    expect(figuresOf(table)?.keys).toBe(0);
    expect(table.figures().usedBytes).toBe(0);
  });

  test("asking takes no slot, and several slots are taken together or not at all", () => {
    const table = smallTable();
    const counters = create(table);
    counters.select(keyOf("a"), keyOf("a"));
    for (let i = 0; i < 5; i += 1) expect(counters.ask(3, 2, 0)).toBe(true);
    expect(figuresOf(table)?.keys).toBe(0);
    expect(take(counters, "a", 3, 0, 2)).toMatchObject({ fits: true, remaining: 1 });
    expect(take(counters, "a", 3, 0, 2)).toMatchObject({ fits: false, remaining: 1 });
    expect(take(counters, "a", 3, 0, 1)).toMatchObject({ fits: true, remaining: 0 });
  });

  test("slots taken before a reload are counted after it, and freed at either", () => {
    const table = smallTable();
    const before = create(table);
    take(before, "a", 2, 0);
    take(before, "a", 2, 0);
    const after = create(table);
    expect(take(after, "a", 3, 0)).toMatchObject({ fits: true, remaining: 0 });
    giveBack(before, "a", 2, 1, 0);
    expect(take(after, "a", 3, 0)).toMatchObject({ fits: true, remaining: 0 });
    for (let i = 0; i < 3; i += 1) giveBack(after, "a", 3, 1, 0);
    expect(figuresOf(table)?.keys).toBe(0);
  });
});

test("a sliding window goes on after a reload with another window", () => {
  const table = smallTable();
  const before = askSliding(table, slot, rules("sliding", 3, 1000));
  for (let i = 0; i < 3; i += 1) take(before, "a", 3, i);
  const after = askSliding(table, slot, rules("sliding", 3, 60_000), before);
  expect(take(after, "a", 3, 1000)).toMatchObject({ fits: false, untilResetMs: 59_000 });
  // Requests of the old policy must not forget what the new one counts.
  expect(take(before, "a", 3, 1000)).toMatchObject({ fits: false });
  expect(after.unspentResetMs(7)).toBe(60_007);
});
