// When a configuration on trial refuses too much, by what was counted.
import { expect, test } from "vitest";
import { TrialJudgement } from "../../src/limits/judge.ts";

/** Looks four times a second at what a step adds in each second. */
function stage(refusedShare: number, from = 0) {
  const tally = { judged: from, refused: from };
  const judgement = new TrialJudgement(refusedShare, () => ({
    judged: tally.judged >>> 0,
    refused: tally.refused >>> 0,
  }));
  let nowMs = 5_000;
  const pass = (seconds: number, judged: number, refused: number): boolean => {
    let isRefused = false;
    for (let i = 0; i < seconds * 4; i += 1) {
      nowMs += 250;
      tally.judged += judged / 4;
      tally.refused += refused / 4;
      isRefused = judgement.isRefused(nowMs) || isRefused;
    }
    return isRefused;
  };
  return { judgement, pass };
}

test("twenty refused requests are a reason, fewer are none", () => {
  const { pass } = stage(0.05);
  expect(pass(19, 4, 1)).toBe(false);
  expect(pass(1, 4, 4)).toBe(true);
});

test("exactly the share is no reason, more is", () => {
  const { pass } = stage(0.05);
  expect(pass(100, 400, 20)).toBe(false);
  expect(pass(1, 400, 24)).toBe(true);
});

test("harm after a long quiet time is seen by the last ten seconds, and forgotten by them after that", () => {
  const { judgement, pass } = stage(0.05);
  expect(pass(3_600, 400, 0)).toBe(false);
  // 40 in ten seconds are a hundredth of these, 240 more than a twentieth.
  expect(pass(10, 400, 4)).toBe(false);
  expect(pass(10, 400, 24)).toBe(true);
  pass(11, 400, 0);
  expect(pass(10, 400, 0)).toBe(false);
  expect(judgement.total).toEqual({ judged: 1_456_400, refused: 280 });
});

test("little harm all the time is seen by the whole trial, though never in ten seconds", () => {
  const { pass } = stage(0.05);
  expect(pass(10, 4, 0)).toBe(false);
  expect(pass(18, 4, 1)).toBe(false);
  expect(pass(8, 4, 1)).toBe(true);
});

test("counts that start again at 0 are no harm", () => {
  const { judgement, pass } = stage(0.05, 2 ** 32 - 100);
  expect(pass(100, 400, 4)).toBe(false);
  expect(judgement.total).toEqual({ judged: 40_000, refused: 400 });
});

test("refusals of a client whose share falls may become fewer, and are never taken for 2^32", () => {
  const tally = { judged: 0, refused: 0 };
  const judgement = new TrialJudgement(0.05, () => ({ ...tally }));
  const isRefused = (judged: number, refused: number, nowMs: number): boolean => {
    Object.assign(tally, { judged, refused });
    return judgement.isRefused(nowMs);
  };
  expect([isRefused(400, 20, 0), isRefused(400, 12, 250)]).toEqual([false, false]);
  expect(judgement.total).toEqual({ judged: 400, refused: 12 });
  expect(isRefused(400, 21, 500)).toBe(true);
});
