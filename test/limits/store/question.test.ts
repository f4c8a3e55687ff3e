// What a request that waits for several calls learns, and when.
import { expect, test, vi } from "vitest";
import { type Conclusion, Question } from "../../../src/limits/store/calls.ts";
import { ManualTimers } from "./manual-timers.ts";

function questionOf(calls: number) {
  const concluded = vi.fn<(conclusion: Conclusion) => void>();
  const question = new Question(concluded);
  for (let i = 0; i < calls; i += 1) question.join();
  return { concluded, question };
}

test("it is concluded when the last of its calls is", () => {
  const { concluded, question } = questionOf(2);
  question.conclude("answered");
  expect(concluded).not.toHaveBeenCalled();
  question.conclude("answered");
  expect(concluded.mock.calls).toEqual([["answered"]]);
});

test.each<[Conclusion, Conclusion]>([
  ["alone", "answered"],
  ["answered", "alone"],
])("one call without an answer is enough to decide alone (%s, %s)", (first, second) => {
  const { concluded, question } = questionOf(2);
  question.conclude(first);
  question.conclude(second);
  expect(concluded.mock.calls).toEqual([["alone"]]);
});

test("it ends alone after its time, and answers that come later change nothing", () => {
  const timers = new ManualTimers();
  const { concluded, question } = questionOf(1);
  question.endAfter(10, { clock: timers.clock, timers });
  question.endAfter(50, { clock: timers.clock, timers });
  timers.advance(10);
  timers.endTurn();
  question.conclude("answered");
  expect(concluded.mock.calls).toEqual([["alone"]]);
  expect(timers.waiting).toBe(0);
});

test("it is alone, in another turn, if there is nobody to ask", () => {
  const timers = new ManualTimers();
  const { concluded, question } = questionOf(1);
  question.nobodyAnswers(timers);
  question.conclude("answered");
  expect(concluded).not.toHaveBeenCalled();
  timers.endTurn();
  expect(concluded.mock.calls).toEqual([["alone"]]);
});

test("an answer in time stops the timer", () => {
  const timers = new ManualTimers();
  const { concluded, question } = questionOf(1);
  question.endAfter(10, { clock: timers.clock, timers });
  question.conclude("answered");
  expect(timers.waiting).toBe(0);
  expect(concluded.mock.calls).toEqual([["answered"]]);
});
