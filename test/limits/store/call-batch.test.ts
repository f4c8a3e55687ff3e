// What the requests of one turn ask for together.
import { expect, test, vi } from "vitest";
import { CallBatch, Question } from "../../../src/limits/store/calls.ts";
import { someCredits } from "./some-credits.ts";

test("units of the same key are asked for by one item", () => {
  const batch = new CallBatch(0);
  const [one, two] = [someCredits(), someCredits()];
  for (const [credits, needed] of [[one, 1] as const, [two, 2] as const, [one, 3] as const]) {
    batch.add(credits, needed, new Question(() => undefined));
  }
  expect(batch.items.map(({ credits, needed }) => [credits === one, needed])).toEqual([
    [true, 4],
    [false, 2],
  ]);
  expect(batch.waiting).toBe(3);
});

test("units that requests may give back are asked for one by one", () => {
  const batch = new CallBatch(0);
  const credits = someCredits({ isByRequest: true });
  for (let i = 0; i < 2; i += 1) batch.add(credits, 1, new Question(() => undefined));
  expect(batch.items.map(({ needed }) => needed)).toEqual([1, 1]);
});

test("a request with several counters in one batch waits for it once", () => {
  const concluded = vi.fn();
  const question = new Question(concluded);
  const batch = new CallBatch(0);
  batch.add(someCredits(), 1, question);
  batch.add(someCredits(), 1, question);
  batch.add(someCredits(), 0, null);
  expect(batch.waiting).toBe(1);
  batch.conclude("answered");
  expect(concluded.mock.calls).toEqual([["answered"]]);
});

test("a request with counters in two batches waits for both", () => {
  const concluded = vi.fn();
  const question = new Question(concluded);
  const batches = [new CallBatch(0), new CallBatch(0)];
  for (const batch of batches) batch.add(someCredits(), 1, question);
  batches[0]?.conclude("answered");
  batches[0]?.conclude("alone");
  expect(concluded).not.toHaveBeenCalled();
  expect(batches.map(({ waiting }) => waiting)).toEqual([0, 1]);
  batches[1]?.conclude("answered");
  expect(concluded.mock.calls).toEqual([["answered"]]);
});
