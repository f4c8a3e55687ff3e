import { expect, test } from "vitest";
import { Guesses, guessRate, maxGuessers } from "../../src/admin/access.ts";

function start() {
  let nowMs = 0;
  const guesses = new Guesses(() => nowMs);
  return {
    guesses,
    pass: (ms: number) => {
      nowMs += ms;
    },
    spend(peer: string) {
      let count = 0;
      while (guesses.waitSeconds(peer) === 0) {
        guesses.failed(peer);
        count += 1;
      }
      return count;
    },
  };
}

test("a peer has its burst, then as many as come back, and waits no longer than it is told", () => {
  const { guesses, spend, pass } = start();
  expect(spend("a")).toBe(guessRate.burst);
  expect(guesses.waitSeconds("a")).toBe(1 / guessRate.perSecond);
  expect(guesses.waitSeconds("b")).toBe(0);
  pass(1000 / guessRate.perSecond - 1);
  expect(guesses.waitSeconds("a")).toBe(1);
  pass(1);
  expect(spend("a")).toBe(1);
});

test("with many peers the newcomers share one budget, and nobody's guesses are forgotten", () => {
  const { guesses, spend, pass } = start();
  for (let i = 0; i < maxGuessers; i += 1) guesses.failed(`peer ${i}`);
  expect(spend("peer 0")).toBe(guessRate.burst - 1);
  expect(spend("new 1")).toBe(guessRate.burst);
  expect(guesses.waitSeconds("new 2")).toBeGreaterThan(0);
  expect(guesses.waitSeconds("peer 0")).toBeGreaterThan(0);
  expect(guesses.waitSeconds("peer 1")).toBe(0);
  pass((guessRate.burst * 1000) / guessRate.perSecond);
  expect(spend("new 2")).toBe(guessRate.burst);
});
