// The renewal of slots that requests hold.
import { expect, test, vi } from "vitest";
import { HeldSlots } from "../../../src/limits/shared/held-slots.ts";
import type { KeyCredits } from "../../../src/limits/shared/key-credits.ts";
import { slotLeaseMs } from "../../../src/limits/shared/policy-rules.ts";
import { type LeaseReport, mostReports } from "../../../src/limits/shared/script-call.ts";
import { ManualTimers } from "./manual-timers.ts";
import { addLease, someCredits } from "./some-credits.ts";

function slots() {
  const timers = new ManualTimers();
  const renew = vi.fn<(credits: KeyCredits, reports: readonly LeaseReport[]) => void>();
  return { timers, renew, held: new HeldSlots(timers, renew) };
}

test("a slot is renewed twice before the store would free it, as long as it is held", () => {
  const { timers, renew, held } = slots();
  const credits = someCredits();
  const lease = addLease(credits, "x", 2, 0);
  held.add(lease);
  timers.advance(slotLeaseMs - 1);
  expect(renew.mock.calls).toEqual([
    [credits, [{ id: "x", granted: 2, spent: 2, ageUs: 0 }]],
    [credits, [{ id: "x", granted: 2, spent: 2, ageUs: 0 }]],
  ]);
  held.delete(lease);
  timers.advance(slotLeaseMs);
  expect(renew).toHaveBeenCalledTimes(2);
  expect(timers.waiting).toBe(0);
});

test("slots are renewed by key, and no more in one item than it may have", () => {
  const { timers, renew, held } = slots();
  const [one, two] = [someCredits(), someCredits()];
  for (let i = 0; i <= mostReports; i += 1) held.add(addLease(one, `x${i}`, 1, 0));
  held.add(addLease(two, "y", 1, 0));
  timers.advance(slotLeaseMs / 3);
  expect(renew.mock.calls.map(([credits, reports]) => [credits === one, reports.length])).toEqual([
    [true, mostReports],
    [true, 1],
    [false, 1],
  ]);
});

test("after the end nothing is renewed", () => {
  const { timers, held } = slots();
  held.add(addLease(someCredits(), "x", 1, 0));
  held.close();
  expect(timers.waiting).toBe(0);
});
