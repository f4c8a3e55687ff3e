import { expect, test } from "vitest";
import { FrameBudgets } from "../../src/http2/frame-reader.ts";
import { FakeClock } from "../support/clock.ts";

function start() {
  const clock = new FakeClock();
  return { clock, budgets: new FrameBudgets(clock.monotonicMs) };
}

test("a connection may spend 3,000 points at once, and 100 in each second after that", () => {
  const { clock, budgets } = start();
  const one = budgets.open(null);
  expect(one.spend(3_000)).toBe(true);
  expect(one.spend(1)).toBe(false);
  clock.advance(1_000);
  expect(one.spend(98)).toBe(true);
  expect(one.spend(2)).toBe(false);
});

test("earned points can be spent again, and never add up to more than the burst", () => {
  const { budgets } = start();
  const one = budgets.open(null);
  one.earn(1_000_000);
  expect(one.spend(3_000)).toBe(true);
  one.earn(500);
  expect(one.spend(500)).toBe(true);
  expect(one.spend(1)).toBe(false);
});

test("the connections of one peer share a budget; over it, those that have used theirs are closed, and no others", () => {
  const { budgets } = start();
  const [quiet, other] = [budgets.open("a"), budgets.open("b")];
  const busy = Array.from({ length: 4 }, () => budgets.open("a"));
  expect(busy.map((each) => each.spend(2_500))).toEqual([true, true, true, true]);
  expect(busy.map((each) => each.spend(1))).toEqual([false, false, false, false]);
  expect([quiet.spend(200), quiet.spend(1), other.spend(1_000)]).toEqual([true, false, true]);
});

test("a peer that connects again gets no new budget until its old one is full again", () => {
  const { clock, budgets } = start();
  for (let i = 0; i < 4; i += 1) {
    const one = budgets.open("a");
    expect(one.spend(2_500)).toBe(true);
    one.close();
  }
  const again = budgets.open("a");
  expect(again.spend(201)).toBe(false);
  again.close();
  clock.advance(11_000);
  expect(budgets.open("a").spend(3_000)).toBe(true);
});

test("a thousand peers that have left keep their budgets, and the one that left before them does not", () => {
  const { budgets } = start();
  const mayStart = (key: string): boolean => {
    const one = budgets.open(key);
    const may = one.spend(3_000);
    one.close();
    return may;
  };
  while (mayStart("first"));
  for (let i = 0; i < 999; i += 1) mayStart(`${i}`);
  expect(mayStart("first")).toBe(false);
  for (let i = 0; i < 1_000; i += 1) budgets.open(`${i}`).close();
  expect(mayStart("first")).toBe(true);
});

test("a trusted proxy has a budget for each connection and none for all", () => {
  const { budgets } = start();
  const all = Array.from({ length: 10 }, () => budgets.open(null));
  expect(all.every((each) => each.spend(3_000))).toBe(true);
});
