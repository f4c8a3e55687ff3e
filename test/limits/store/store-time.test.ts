// How long the store is waited for by a thread that may stand still meanwhile.
import { expect, test, vi } from "vitest";
import { afterStoreTime } from "../../../src/limits/store/store-clock.ts";
import { ManualTimers } from "./manual-timers.ts";

const waitMs = 40;

function waiting() {
  const timers = new ManualTimers();
  const over = vi.fn();
  const wait = afterStoreTime({ timers, clock: timers.clock }, waitMs, over);
  return { timers, over, wait };
}

test("the wait is over after its time, once what has arrived by then was read", () => {
  const { timers, over } = waiting();
  timers.advance(waitMs - 1);
  expect(timers.endTurn()).toBe(false);
  timers.advance(1);
  expect(over).not.toHaveBeenCalled();
  timers.endTurn();
  expect(over).toHaveBeenCalledOnce();
  expect(timers.waiting).toBe(0);
});

test("a wait that is cancelled is never over, even if its time was", () => {
  const { timers, over, wait } = waiting();
  timers.advance(waitMs);
  wait.cancel();
  timers.endTurn();
  expect(over).not.toHaveBeenCalled();
  expect(timers.waiting).toBe(0);
});

test("time in which the thread stood still counts as a quarter of the wait at most", () => {
  const { timers, over } = waiting();
  timers.advance(5);
  // No timer runs meanwhile.
  timers.clock.advance(1000);
  timers.advance(0);
  timers.advance(0.75 * waitMs - 1);
  timers.endTurn();
  expect(over).not.toHaveBeenCalled();
  timers.advance(1);
  timers.endTurn();
  expect(over).toHaveBeenCalledOnce();
});

test("timers that are a millisecond late each do not make it longer", () => {
  const { timers, over } = waiting();
  for (let i = 0; i < 3; i += 1) {
    timers.advance(waitMs / 4 - 1);
    timers.clock.advance(2);
    timers.advance(0);
  }
  timers.advance(waitMs / 4 - 3);
  timers.endTurn();
  expect(over).toHaveBeenCalledOnce();
});

test("timers that are early do not make it shorter", () => {
  const { timers, over } = waiting();
  // They count from the beginning of the turn in which they were set.
  const late = vi.spyOn(timers, "after").mockImplementation((ms, run) => {
    late.mockRestore();
    return timers.after(ms - 8, run);
  });
  timers.advance(waitMs - 1);
  timers.endTurn();
  expect(over).not.toHaveBeenCalled();
});
