// What a thread holds of one counter: which units may be spent, what is reported of them, how much is leased ahead, and
// until when a refusal is remembered.
import { describe, expect, test } from "vitest";
import type { KeyCredits } from "../../../src/limits/store/credits.ts";
import { addLease, answerOf, someCredits } from "./some-credits.ts";

describe("spending", () => {
  test("a lease can be spent before its end, and not at it", () => {
    const credits = someCredits();
    addLease(credits, "x", 5, 100);
    expect([credits.held(99), credits.held(100)]).toEqual([5, 0]);
  });

  test("units of several leases are spent together, the oldest first", () => {
    const credits = someCredits();
    const [one, two] = [addLease(credits, "x", 2, 100), addLease(credits, "y", 5, 100)];
    expect(credits.spend(3, 10)).toEqual([one, two]);
    expect([one.left, two.left, credits.held(10)]).toEqual([0, 4, 4]);
  });

  test("a lease that has ended is left out", () => {
    const credits = someCredits();
    addLease(credits, "x", 2, 100);
    const two = addLease(credits, "y", 5, 200);
    expect(credits.spend(1, 150)).toEqual([two]);
  });
});

describe("reports", () => {
  test("a lease that has ended is reported once, with the age of its newest unit by the slowest clock", () => {
    const credits = someCredits();
    addLease(credits, "x", 5, 100);
    credits.spend(2, 50);
    credits.endLeases(99);
    expect(credits.policy.units.returned).toBe(0);
    credits.endLeases(100);
    expect(credits.policy.units.returned).toBe(3);
    expect(credits.takeReports(9, 151)).toMatchObject([{ id: "x", granted: 5, spent: 2, ageUs: 100_000 }]);
    expect(credits.takeReports(9, 151)).toEqual([]);
  });

  test("no more than asked for are taken at once", () => {
    const credits = someCredits();
    for (const id of ["x", "y", "z"]) addLease(credits, id, 1, 100);
    credits.endAll();
    expect(credits.takeReports(2, 0).map(({ id }) => id)).toEqual(["x", "y"]);
    expect(credits.takeReports(2, 0).map(({ id }) => id)).toEqual(["z"]);
    expect(credits.reports).toBe(0);
  });

  test.each([
    [true, 1],
    [false, 0],
  ])("leased ahead: %s; a lease that is wholly spent makes %i reports", (isAhead, reports) => {
    const credits = someCredits({ isAhead });
    addLease(credits, "x", 2, 100);
    credits.spend(2, 10);
    expect(credits.openLeases).toBe(0);
    expect(credits.takeReports(9, 10)).toHaveLength(reports);
  });

  test("a request's own lease that is given back is reported as not spent", () => {
    const credits = someCredits({ isAhead: false, isByRequest: true });
    const lease = addLease(credits, "x", 2, 100);
    credits.spend(2, 10);
    credits.giveBack(lease, 10);
    expect(credits.takeReports(9, 10)).toMatchObject([{ id: "x", granted: 2, spent: 0, ageUs: 0 }]);
  });
});

const oneByOne = { isAhead: false };

const [sentMs, nowMs] = [1_000, 1_004];

describe("after an answer", () => {
  test.each([
    ["units are free", { granted: 1, fitsUs: 0 }, oneByOne, 0, 0],
    ["the last unit was granted", { granted: 1, fitsUs: 50_500 }, oneByOne, sentMs + 50, nowMs + 50.5],
    ["none was granted", { granted: 0, fitsUs: 50_500 }, oneByOne, sentMs + 50, nowMs + 50.5],
    ["none for long: 100 ms", { granted: 0, fitsUs: 5_050_000 }, oneByOne, sentMs + 100, nowMs + 5_050],
    ["fewer than needed", { granted: 0, fitsUs: 0 }, oneByOne, sentMs, 0],
    ["no step ever fits: 100 ms", { granted: 0, fitsUs: -1 }, oneByOne, sentMs + 100, nowMs + 10_000],
    ["leased ahead: a lease", { granted: 0, fitsUs: 5_050_000 }, {}, sentMs + 100, nowMs + 5_050],
    ["held by requests: 20 ms", { granted: 0, fitsUs: 5_050_000 }, { isByRequest: true }, sentMs + 20, nowMs + 5_050],
    ["held, the last one", { granted: 1, fitsUs: 5_050_000 }, { isByRequest: true }, 0, nowMs + 5_050],
  ])("%s", (_, answer, rules, refusedUntilMs, fitsMs) => {
    const credits = someCredits(rules);
    credits.answered(answerOf(answer), 1, sentMs, nowMs);
    expect([credits.refusedUntilMs, credits.fitsMs]).toEqual([refusedUntilMs, fitsMs]);
  });
});

test.each<[string, object, number, number, number]>([
  ["none is leased elsewhere", oneByOne, -1, sentMs + 100, nowMs + 5_050],
  ["one was just leased elsewhere: 150 ms", oneByOne, 0, sentMs + 100, sentMs + 100],
  ["one was leased elsewhere that may be back soon", oneByOne, 120_000, sentMs + 30, sentMs + 30],
  ["one was leased elsewhere that was spent by now", oneByOne, 150_000, sentMs + 100, nowMs + 5_050],
  // What is held is in what the store has said of when a request fits.
  ["held by requests", { isByRequest: true }, -1, sentMs + 20, nowMs + 5_050],
])("a refusal is remembered until units may be back: %s", (_, rules, leasedUs, refusedUntilMs, fullUntilMs) => {
  const credits = someCredits(rules);
  credits.answered(answerOf({ granted: 0, fitsUs: 5_050_000, leasedUs }), 1, sentMs, nowMs);
  expect([credits.refusedUntilMs, credits.fullUntilMs]).toEqual([refusedUntilMs, fullUntilMs]);
});

test("a refusal is not remembered when units of this thread are returned that were granted in vain", () => {
  const credits = someCredits(oneByOne);
  addLease(credits, "x", 1, nowMs + 50);
  credits.answered(answerOf({ granted: 1, fitsUs: 5_000_000 }), 1, sentMs, nowMs);
  credits.endLeases(nowMs + 50);
  expect(credits.refusedUntil(true, nowMs + 50)).toBe(0);
  expect([credits.fitsMs, credits.fullUntilMs]).toEqual([0, 0]);
});

test("a refusal is remembered for longer each time, until something is granted", () => {
  const credits = someCredits(oneByOne);
  const refused = answerOf({ granted: 0, fitsUs: 60_000_000 });
  const until = [0, 50, 100, 500, 600, 2_100, 60_000].map((sentMs) => {
    credits.answered(sentMs === 600 ? answerOf({ granted: 1 }) : refused, 1, sentMs, sentMs);
    return credits.refusedUntilMs;
  });
  expect(until).toEqual([100, 150, 200, 900, 0, 2_200, 60_400]);
});

test("a request that has asked is refused as long as the store has said, others until it makes sense to ask", () => {
  const credits = someCredits();
  credits.answered(answerOf({ granted: 0, fitsUs: 5_000_000 }), 1, 1_000, 1_004);
  expect([true, false].map((isFirst) => credits.refusedUntil(isFirst, 1_004))).toEqual([1_100, 6_004]);
});

test.each<[string, object, number, number, number]>([
  ["one that a request was told is remembered", oneByOne, 1, 0, 1_100],
  ["so is one with the last unit", oneByOne, 1, 1, 1_100],
  ["one that came with a report lets the first request ask", oneByOne, 0, 0, 0],
  ["leased ahead: one that a request was told is remembered", {}, 1, 0, 1_100],
  ["leased ahead: one with the last unit lets the first request ask", {}, 1, 1, 0],
])("of refusals, %s", (_, rules, needed, granted, untilMs) => {
  const credits = someCredits(rules);
  credits.answered(answerOf({ granted, fitsUs: 5_000_000 }), needed, 1_000, 1_004);
  expect(credits.refusedUntil(true, 1_004)).toBe(untilMs);
  expect(credits.refusedUntil(false, 1_004)).toBe(6_004);
});

describe("leasing ahead, with leases of 100 ms", () => {
  /** Spends a unit every `everyMs` until an instant. */
  function spendUntil(credits: KeyCredits, endMs: number, everyMs: number): void {
    for (let nowMs = 0; nowMs < endMs; nowMs += everyMs) {
      credits.spend(1, nowMs);
      credits.wantedAhead(nowMs);
    }
  }

  test("a busy key wants what one lease needs", () => {
    const credits = someCredits();
    spendUntil(credits, 1_000, 1);
    expect(credits.wantedAhead(1_000)).toBeGreaterThanOrEqual(100);
    expect(credits.wantedAhead(1_000)).toBeLessThan(120);
  });

  test("a key with two requests a lease wants nothing", () => {
    const credits = someCredits();
    spendUntil(credits, 1_000, 50);
    expect(credits.wantedAhead(1_000)).toBe(0);
  });

  test("a client that has stopped wants nothing after a lease, whenever its rate was found out", () => {
    for (let endMs = 1_000; endMs < 1_100; endMs += 10) {
      const credits = someCredits();
      spendUntil(credits, endMs, 1);
      expect(credits.wantedAhead(endMs + 90)).toBeGreaterThan(0);
      expect(credits.wantedAhead(endMs + 100)).toBe(0);
    }
  });

  test("what is held is short at a quarter", () => {
    const credits = someCredits();
    spendUntil(credits, 1_000, 1);
    addLease(credits, "x", 60, 2_000);
    expect(credits.isShort(1_000)).toBe(false);
    credits.spend(40, 1_000);
    expect(credits.isShort(1_000)).toBe(true);
  });
});

describe("a key may be forgotten", () => {
  test("when nothing is known about it", () => {
    expect(someCredits().isIdle(0)).toBe(true);
  });

  test.each<[string, (credits: KeyCredits) => unknown]>([
    ["has a lease", (credits) => addLease(credits, "x", 1, 100)],
    ["has a call under way", (credits) => Object.assign(credits, { inFlight: 1 })],
    ["has admitted what the store does not know", (credits) => Object.assign(credits, { admittedAlone: 1 })],
    ["is refused from memory", (credits) => Object.assign(credits, { refusedUntilMs: 1 })],
  ])("but not while it %s", (_, make) => {
    const credits = someCredits();
    make(credits);
    expect(credits.isIdle(0)).toBe(false);
  });
});
