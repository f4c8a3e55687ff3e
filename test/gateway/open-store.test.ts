// How long a start waits for the store.
import { expect, test } from "vitest";
import { inTime } from "../../src/gateway/open-store.ts";
import { ManualTimers } from "../limits/store/manual-timers.ts";
import { turns } from "../support/eventually.ts";

const timeoutMs = 1_000;

/** A start that waits for what `reach` says is there. */
async function starting() {
  const timers = new ManualTimers();
  const reached = Promise.withResolvers<void>();
  let isOver = false;
  void inTime(reached.promise, { timers, clock: timers.clock }).then(() => {
    isOver = true;
  });
  while (timers.waiting === 0) await turns(1);
  /** Returns whether the start goes on, once what has arrived was read. */
  const goesOn = async (): Promise<boolean> => {
    await turns(1);
    return isOver;
  };
  return { timers, reach: reached.resolve, goesOn };
}

test("goes on as soon as the store is there, and leaves no timer", async () => {
  const { timers, reach, goesOn } = await starting();
  expect(await goesOn()).toBe(false);
  reach();
  expect(await goesOn()).toBe(true);
  expect(timers.waiting).toBe(0);
});

test("goes on without a store after a second", async () => {
  const { timers, goesOn } = await starting();
  timers.advance(timeoutMs - 1);
  timers.endTurn();
  expect(await goesOn()).toBe(false);
  timers.advance(1);
  timers.endTurn();
  expect(await goesOn()).toBe(true);
});

test("does not go on without a store only because it stood still itself", async () => {
  const { timers, goesOn } = await starting();
  timers.clock.advance(10 * timeoutMs);
  timers.advance(0);
  timers.endTurn();
  expect(await goesOn()).toBe(false);
});
