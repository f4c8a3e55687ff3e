// What policies of each kind count, as timelines.
import { describe, expect, test } from "vitest";
import { CalendarCounters } from "../../src/limits/calendar-counters.ts";
import { ConcurrencyCounters } from "../../src/limits/concurrency-counters.ts";
import type { Counters } from "../../src/limits/counters.ts";
import { SlidingCounters } from "../../src/limits/sliding-counters.ts";
import { FakeClock } from "../support/clock.ts";

const dayMs = 86_400_000;
const midnight = Date.UTC(2026, 2, 10);

/** Asks and, if that is possible, charges. Returns the answer, and what `giveBack` needs. */
function take(counters: Counters, key: string, limit: number, nowMs: number, units = 1) {
  const fits = counters.ask(key, limit, units, nowMs);
  const { remaining, resetMs } = counters;
  return { fits, remaining, untilResetMs: resetMs - nowMs, charged: fits ? counters.charge() : Number.NaN };
}

function calendar(per: "hour" | "day" | "month" = "day", startWallMs = midnight + 1000, maxKeys = 100) {
  const clock = new FakeClock();
  clock.wallOffsetMs = startWallMs - clock.nowMs;
  return { clock, counters: new CalendarCounters({ per, timezone: "UTC" }, maxKeys, clock) };
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
    // It goes back by a month: nothing is refilled, and the wait is that for the end of the day it shows.
    [0, -30 * dayMs, false, 0, dayMs - 2],
    [dayMs - 2, 0, true, 2, dayMs],
    // It goes forward by two days, as after a suspension: a new period.
    [0, 2 * dayMs, true, 2, dayMs],
  ];

  test("three a day, on one timeline with steps of the wall clock", () => {
    const { clock, counters } = calendar();
    for (const [i, [advanceMs, stepMs, fits, remaining, untilResetMs]] of rows.entries()) {
      clock.advance(advanceMs);
      clock.stepWall(stepMs);
      expect(take(counters, "a", 3, clock.nowMs), `row ${i}`).toMatchObject({ fits, remaining, untilResetMs });
    }
  });

  test("a look charges nothing and shows the end of the period, also for a key that is not stored", () => {
    const { clock, counters } = calendar();
    take(counters, "a", 3, clock.nowMs, 2);
    for (const [key, remaining] of [
      ["a", 1],
      ["b", 3],
    ] as const) {
      counters.peek(key, 3, clock.nowMs);
      expect([counters.remaining, counters.resetMs - clock.nowMs]).toEqual([remaining, dayMs - 1000]);
    }
    expect(counters.unspentResetMs(clock.nowMs) - clock.nowMs).toBe(dayMs - 1000);
    expect(counters.stats().clients).toBe(1);
  });

  test("a unit is given back in its period only", () => {
    const { clock, counters } = calendar();
    const first = take(counters, "a", 1, clock.nowMs);
    expect(take(counters, "a", 1, clock.nowMs).fits).toBe(false);
    counters.giveBack("a", 1, 1, first.charged);
    const second = take(counters, "a", 1, clock.nowMs);
    expect(second.fits).toBe(true);
    clock.advance(dayMs);
    expect(take(counters, "a", 1, clock.nowMs).fits).toBe(true);
    counters.giveBack("a", 1, 1, second.charged);
    expect(take(counters, "a", 1, clock.nowMs).fits).toBe(false);
  });

  test("a flood of keys gives an exhausted one nothing back, and a new period forgets the old one's keys first", () => {
    const { clock, counters } = calendar("day", midnight, 50);
    for (let i = 0; i < 3; i += 1) take(counters, "exhausted", 3, clock.nowMs);
    for (let i = 0; i < 1000; i += 1) expect(take(counters, `flood ${i}`, 3, clock.nowMs).fits).toBe(true);
    expect(take(counters, "exhausted", 3, clock.nowMs).fits).toBe(false);
    expect(counters.stats()).toEqual({ clients: 50, capacity: 50, evictedExpired: 0, evictedLive: 951 });
    clock.advance(dayMs);
    expect(take(counters, "exhausted", 3, clock.nowMs)).toMatchObject({ fits: true, remaining: 2 });
    for (let i = 0; i < 49; i += 1) take(counters, `next ${i}`, 3, clock.nowMs);
    expect(counters.stats()).toMatchObject({ evictedExpired: 49, evictedLive: 951 });
  });

  test("goes on after a reload with another limit or period, and a limiter that is never used changes nothing", () => {
    const { clock, counters } = calendar("hour");
    for (let i = 0; i < 3; i += 1) take(counters, "a", 5, clock.nowMs);
    const unused = new CalendarCounters({ per: "month", timezone: "UTC" }, 100, clock, counters);
    expect(unused.stats().clients).toBe(1);
    expect(take(counters, "b", 5, clock.nowMs).untilResetMs).toBe(3_600_000 - 1000);
    const daily = new CalendarCounters({ per: "day", timezone: "UTC" }, 100, clock, counters);
    expect(take(daily, "a", 5, clock.nowMs)).toMatchObject({ fits: true, remaining: 1, untilResetMs: dayMs - 1000 });
    expect(daily.stats()).toMatchObject({ clients: 2, capacity: 100 });
    clock.advance(3_600_000);
    expect(take(daily, "a", 5, clock.nowMs)).toMatchObject({ fits: true, remaining: 0 });
    // What still counts with the old limiter counts in the period of the new one.
    expect(take(counters, "a", 5, clock.nowMs)).toMatchObject({ fits: false, untilResetMs: dayMs - 3_601_000 });
  });

  test("a period that has ended before a reload is refilled by it, once", () => {
    const { clock, counters } = calendar("hour");
    for (let i = 0; i < 5; i += 1) take(counters, "a", 5, clock.nowMs);
    clock.advance(3_600_000);
    const daily = new CalendarCounters({ per: "day", timezone: "UTC" }, 100, clock, counters);
    for (let i = 0; i < 5; i += 1) expect(take(daily, "a", 5, clock.nowMs).fits).toBe(true);
    expect(take(daily, "a", 5, clock.nowMs).fits).toBe(false);
  });
});

describe("concurrency", () => {
  test("a slot is free again when it is given back, and a key without slots takes no memory", () => {
    const counters = new ConcurrencyCounters(100);
    expect(take(counters, "a", 2, 0)).toMatchObject({ fits: true, remaining: 1, untilResetMs: 1000 });
    expect(take(counters, "a", 2, 5)).toMatchObject({ fits: true, remaining: 0, untilResetMs: 1000 });
    expect(take(counters, "a", 2, 1_000_000)).toMatchObject({ fits: false, remaining: 0, untilResetMs: 1000 });
    expect(take(counters, "b", 2, 0)).toMatchObject({ fits: true, remaining: 1 });
    expect(counters.stats().clients).toBe(2);
    counters.giveBack("a", 2, 1);
    counters.peek("a", 2, 7);
    expect([counters.remaining, counters.resetMs]).toEqual([1, 1007]);
    expect(take(counters, "a", 2, 0)).toMatchObject({ fits: true, remaining: 0 });
    for (const key of ["a", "a", "b"]) counters.giveBack(key, 2, 1);
    expect(counters.stats().clients).toBe(0);
  });

  test("asking takes no slot, and several slots are taken together or not at all", () => {
    const counters = new ConcurrencyCounters(100);
    for (let i = 0; i < 5; i += 1) expect(counters.ask("a", 3, 2, 0)).toBe(true);
    expect(counters.stats().clients).toBe(0);
    expect(take(counters, "a", 3, 0, 2)).toMatchObject({ fits: true, remaining: 1 });
    expect(take(counters, "a", 3, 0, 2)).toMatchObject({ fits: false, remaining: 1 });
    expect(take(counters, "a", 3, 0, 1)).toMatchObject({ fits: true, remaining: 0 });
  });

  test("slots taken before a reload are counted after it, and freed at either", () => {
    const before = new ConcurrencyCounters(100);
    take(before, "a", 2, 0);
    take(before, "a", 2, 0);
    const after = new ConcurrencyCounters(100, before);
    expect(take(after, "a", 3, 0)).toMatchObject({ fits: true, remaining: 0 });
    before.giveBack("a", 2, 1);
    expect(take(after, "a", 3, 0)).toMatchObject({ fits: true, remaining: 0 });
    for (let i = 0; i < 3; i += 1) after.giveBack("a", 3, 1);
    expect(before.stats().clients).toBe(0);
  });
});

test("a sliding window goes on after a reload with another window", () => {
  const before = new SlidingCounters(1000, 10);
  for (let i = 0; i < 3; i += 1) take(before, "a", 3, i);
  const after = new SlidingCounters(60_000, 10, before);
  expect(take(after, "a", 3, 1000)).toMatchObject({ fits: false, untilResetMs: 59_000 });
  // Requests of the old policy must not forget what the new one counts.
  expect(take(before, "a", 3, 1000)).toMatchObject({ fits: false });
  expect(after.stats()).toEqual(before.stats());
  expect(after.unspentResetMs(7)).toBe(60_007);
});
