// What a thread holds of one counter: which units may be spent, what is reported of them, how much is leased ahead, and
// until when a refusal is remembered.
import { describe, expect, test } from "vitest";
import { AheadOfNeed } from "../../../src/limits/store/ahead-of-need.ts";
import type { SharedKey } from "../../../src/limits/store/shared-key.ts";
import { addLease, answerOf, rulesAhead, someKey, spend } from "./some-keys.ts";

describe("spending", () => {
  test("a lease can be spent before its end, and not at it", () => {
    const key = someKey();
    addLease(key, "x", 5, 100);
    expect([99, 100].map((nowMs) => [key.held.free(nowMs), key.held.has(5, nowMs)])).toEqual([
      [5, true],
      [0, false],
    ]);
  });

  test("a request has its units of one lease, the oldest that has so many and has not ended", () => {
    const key = someKey();
    const [, two, three] = [addLease(key, "x", 9, 5), addLease(key, "y", 2, 100), addLease(key, "z", 5, 100)];
    expect([3, 2, 3].map((units) => spend(key, units, 10))).toEqual([three, two, undefined]);
    expect([two.left, three.left, key.held.free(10)]).toEqual([0, 2, 2]);
  });

  test("what is reserved for a request is nobody else's, and may be spent after the end", () => {
    const key = someKey();
    const lease = addLease(key, "x", 2, 100);
    key.held.take(2, 10);
    key.endAll();
    expect([key.held.has(1, 10), key.held.reserved, key.held.ended]).toEqual([false, 2, 0]);
    key.spend(lease, 1, 150);
    key.release(lease, 1, 150);
    expect(key.held.takeReports(9, 150)).toMatchObject([{ id: "x", granted: 2, spent: 1, ageUs: 0 }]);
  });

  test("units that requests have asked for are not held for others: what nobody needs is returned at once", () => {
    const key = someKey({ isAhead: false });
    const lease = addLease(key, "x", 2, 100);
    key.held.take(1, 10);
    key.spend(lease, 1, 10);
    expect([key.held.isReturning, key.held.takeReports(9, 10)]).toMatchObject([true, [{ granted: 2, spent: 1 }]]);
  });
});

describe("reports", () => {
  test("a lease that has ended is reported once, with the age of its newest unit by the slowest clock", () => {
    const key = someKey();
    addLease(key, "x", 5, 100);
    spend(key, 2, 50);
    key.endLeases(99);
    expect(key.policy.units.returned).toBe(0);
    key.endLeases(100);
    expect(key.policy.units.returned).toBe(3);
    expect(key.held.takeReports(9, 151)).toMatchObject([{ id: "x", granted: 5, spent: 2, ageUs: 100_000 }]);
    expect(key.held.takeReports(9, 151)).toEqual([]);
  });

  test("no more than asked for are taken at once", () => {
    const key = someKey();
    for (const id of ["x", "y", "z"]) addLease(key, id, 1, 100);
    key.endAll();
    expect([2, 2].map((most) => key.held.takeReports(most, 0).map(({ id }) => id))).toEqual([["x", "y"], ["z"]]);
    expect(key.held.ended).toBe(0);
  });

  test.each([
    [true, 1],
    [false, 0],
  ])("leased ahead: %s; a lease that is wholly spent makes %i reports", (isAhead, reports) => {
    const key = someKey({ isAhead });
    addLease(key, "x", 2, 100);
    spend(key, 2, 10);
    expect([key.held.open, key.held.ended]).toEqual([0, reports]);
  });

  test("a request's own lease that is given back is reported as not spent", () => {
    const key = someKey({ isAhead: false, isByRequest: true });
    const lease = addLease(key, "x", 2, 100);
    spend(key, 2, 10);
    key.giveBack(lease, 10);
    expect(key.held.takeReports(9, 10)).toMatchObject([{ id: "x", granted: 2, spent: 0, ageUs: 0 }]);
  });
});

const oneByOne = { isAhead: false };

const [sentMs, nowMs] = [1_000, 1_004];
const [granted, refused] = [{ isRefused: false }, { isRefused: true }];

describe("after an answer", () => {
  test.each([
    ["units are free", granted, 0, oneByOne, 0, 0],
    ["the last unit was granted", granted, 50_500, oneByOne, sentMs + 50, nowMs + 50.5],
    ["none was granted", refused, 50_500, oneByOne, sentMs + 50, nowMs + 50.5],
    ["none for long: 100 ms", refused, 5_050_000, oneByOne, sentMs + 100, nowMs + 5_050],
    ["none for long with the last unit: 100 ms", granted, 5_050_000, oneByOne, sentMs + 100, nowMs + 5_050],
    ["with a report, and the first request asks", null, 5_050_000, oneByOne, 0, nowMs + 5_050],
    ["fewer than needed", refused, 0, oneByOne, sentMs, 0],
    ["no step ever fits: 100 ms", refused, -1, oneByOne, sentMs + 100, nowMs + 10_000],
    ["leased ahead: a lease", refused, 5_050_000, {}, sentMs + 100, nowMs + 5_050],
    ["leased ahead, the last one, and the first request asks", granted, 5_050_000, {}, 0, nowMs + 5_050],
    ["held by requests: 20 ms", refused, 5_050_000, { isByRequest: true }, sentMs + 20, nowMs + 5_050],
    ["held, the last one", granted, 5_050_000, { isByRequest: true }, 0, nowMs + 5_050],
  ])("%s", (_, asked, fitsUs, rules, refusedUntilMs, fitsMs) => {
    const key = someKey(rules);
    key.answered(answerOf({ fitsUs }), asked, sentMs, nowMs);
    expect([key.last.refusedUntilMs, key.last.fitsMs]).toEqual([refusedUntilMs, fitsMs]);
  });
});

test.each<[string, object, number, number, number]>([
  ["none is leased elsewhere", oneByOne, -1, sentMs + 100, nowMs + 5_050],
  ["one was just leased elsewhere: 150 ms", oneByOne, 0, sentMs + 100, sentMs + 150],
  ["one was leased elsewhere that may be back soon", oneByOne, 120_000, sentMs + 30, sentMs + 30],
  ["one was leased elsewhere that was spent by now", oneByOne, 150_000, sentMs + 100, nowMs + 5_050],
  // What is held is in what the store has said of when a request fits.
  ["held by requests", { isByRequest: true }, -1, sentMs + 20, nowMs + 5_050],
])("a refusal is remembered until units may be back: %s", (_, rules, leasedUs, refusedUntilMs, fullUntilMs) => {
  const key = someKey(rules);
  key.answered(answerOf({ fitsUs: 5_050_000, leasedUs }), refused, sentMs, nowMs);
  expect([key.last.refusedUntilMs, key.last.fullUntilMs]).toEqual([refusedUntilMs, fullUntilMs]);
});

test("who was not refused is taken to be, beside another refusal, until units of others may be back", () => {
  const key = someKey();
  key.answered(answerOf({ fitsUs: 5_050_000, leasedUs: 60_000 }), null, sentMs, nowMs);
  expect([key.last.refusedUntilMs, key.last.fullUntilMs]).toEqual([0, sentMs + 90]);
});

test("a refusal is not remembered when units of this thread are returned that were granted in vain", () => {
  const key = someKey(oneByOne);
  const lease = addLease(key, "x", 1, nowMs + 50);
  key.held.take(1, nowMs);
  key.answered(answerOf({ granted: 1, fitsUs: 5_000_000 }), granted, sentMs, nowMs);
  // While they are reserved, their time being over is enough.
  expect([nowMs + 49, nowMs + 50].map((at) => key.isRefused(at))).toEqual([true, false]);
  key.release(lease, 1, nowMs + 50);
  expect([key.last.refusedUntilMs, key.last.fitsMs, key.last.fullUntilMs]).toEqual([0, 0, 0]);
});

test("a refusal from before units of this thread come back is not remembered: not reported, under way, answered", () => {
  const key = someKey(oneByOne);
  const lease = addLease(key, "x", 1, nowMs + 50);
  key.held.take(1, nowMs);
  key.release(lease, 1, nowMs);
  const fits = (): readonly number[] => {
    key.answered(answerOf({ fitsUs: 5_000_000 }), refused, sentMs, nowMs);
    return [key.last.refusedUntilMs, key.last.fitsMs];
  };
  const before = fits();
  const reports = key.held.takeReports(9, nowMs);
  const underWay = fits();
  key.held.reported(reports);
  expect([before, underWay, fits()]).toEqual([
    [0, 0],
    [0, 0],
    [sentMs + 100, nowMs + 5_000],
  ]);
});

test("a refusal is remembered for longer each time, until something is granted", () => {
  const key = someKey(oneByOne);
  const until = [0, 50, 100, 500, 600, 2_100, 60_000].map((sentMs) => {
    const isGranted = sentMs === 600;
    key.answered(answerOf({ fitsUs: isGranted ? 0 : 60_000_000 }), isGranted ? granted : refused, sentMs, sentMs);
    return key.last.refusedUntilMs;
  });
  expect(until).toEqual([100, 150, 200, 900, 0, 2_200, 60_400]);
});

describe("leasing ahead, with leases of 100 ms", () => {
  /** Spends a unit every `everyMs` until an instant. */
  function spentUntil(endMs: number, everyMs: number): AheadOfNeed {
    const ahead = new AheadOfNeed();
    for (let nowMs = 0; nowMs < endMs; nowMs += everyMs) {
      ahead.spent(1, nowMs);
      ahead.wanted(rulesAhead, nowMs);
    }
    return ahead;
  }

  test("a busy key wants what one lease needs", () => {
    const wanted = spentUntil(1_000, 1).wanted(rulesAhead, 1_000);
    expect(wanted).toBeGreaterThanOrEqual(100);
    expect(wanted).toBeLessThan(120);
  });

  test("a key with two requests a lease wants nothing", () => {
    expect(spentUntil(1_000, 50).wanted(rulesAhead, 1_000)).toBe(0);
  });

  test("a client that has stopped wants nothing after a lease, whenever its rate was found out", () => {
    for (let endMs = 1_000; endMs < 1_100; endMs += 10) {
      const ahead = spentUntil(endMs, 1);
      expect(ahead.wanted(rulesAhead, endMs + 90)).toBeGreaterThan(0);
      expect(ahead.wanted(rulesAhead, endMs + 100)).toBe(0);
    }
  });
});

describe("a key may be forgotten", () => {
  test("when nothing is known about it", () => {
    expect(someKey().isIdle(0)).toBe(true);
  });

  test.each<[string, (key: SharedKey) => unknown]>([
    ["has a lease", (key) => addLease(key, "x", 1, 100)],
    ["has a call under way, or about to leave", (key) => Object.assign(key, { calls: 1 })],
    ["has admitted what the store does not know", (key) => Object.assign(key.untold, { requests: 1 })],
    ["is refused from memory", (key) => Object.assign(key.last, { refusedUntilMs: 1 })],
  ])("but not while it %s", (_, make) => {
    const key = someKey();
    make(key);
    expect(key.isIdle(0)).toBe(false);
  });
});
