// The renewal of slots that requests hold.
import { expect, test, vi } from "vitest";
import { slotLeaseMs } from "../../../src/limits/store/credits.ts";
import { HeldSlots, type Renew } from "../../../src/limits/store/leases.ts";
import { mostReports } from "../../../src/limits/store/script-call.ts";
import { ManualTimers } from "./manual-timers.ts";
import { addLease, someCredits } from "./some-credits.ts";

function slots({ isClustered = false, renew = vi.fn<Renew>(() => true) } = {}) {
  const timers = new ManualTimers();
  const held = new HeldSlots(timers, isClustered, renew);
  /** For each call, how many slots its renewals are about. */
  const sent = () => renew.mock.calls.map(([renewals]) => renewals.map(({ reports }) => reports.length));
  return { timers, renew, held, sent, answer: (call: number) => renew.mock.calls[call]?.[1]() };
}

test("a slot is renewed twice before the store would free it, as long as it is held", () => {
  const { timers, renew, held, answer } = slots();
  const credits = someCredits();
  const lease = addLease(credits, "x", 2, 0);
  held.add(lease);
  timers.advance(slotLeaseMs / 2);
  answer(0);
  timers.advance(slotLeaseMs / 2 - 1);
  const renewal = { credits, reports: [{ id: "x", granted: 2, spent: 2, ageUs: 0 }] };
  expect(renew.mock.calls.map(([renewals]) => renewals)).toEqual([[renewal], [renewal]]);
  held.delete(lease);
  answer(1);
  timers.advance(slotLeaseMs);
  expect(renew).toHaveBeenCalledTimes(2);
  expect(timers.waiting).toBe(0);
});

test("slots are renewed by key, and no more in one item than it may have", () => {
  const { timers, renew, held, sent } = slots();
  const [one, two] = [someCredits(), someCredits()];
  for (let i = 0; i <= mostReports; i += 1) held.add(addLease(one, `x${i}`, 1, 0));
  held.add(addLease(two, "y", 1, 0));
  timers.advance(slotLeaseMs / 3);
  expect(sent()).toEqual([[8, 8, 8, 8, 1, 1]]);
  expect(renew.mock.calls[0]?.[0].map(({ credits }) => credits === one)).toEqual([true, true, true, true, true, false]);
});

test("the slots of many keys are renewed by one call after the other", () => {
  const { timers, held, sent, answer } = slots();
  for (let i = 0; i < 150; i += 1) held.add(addLease(someCredits(), `x${i}`, 1, 0));
  timers.advance(slotLeaseMs / 3);
  expect(sent().map(({ length }) => length)).toEqual([64]);
  answer(0);
  answer(1);
  expect(sent().map(({ length }) => length)).toEqual([64, 64, 22]);
  answer(2);
  expect(sent()).toHaveLength(3);
});

test("a slot that is given back while others are renewed is not taken again", () => {
  const { timers, renew, held, answer } = slots();
  const leases = Array.from({ length: 66 }, (_, i) => addLease(someCredits(), `x${i}`, 1, 0));
  for (const lease of leases) held.add(lease);
  timers.advance(slotLeaseMs / 3);
  if (leases[64] !== undefined) held.delete(leases[64]);
  answer(0);
  expect(renew.mock.calls[1]?.[0].map(({ reports }) => reports[0]?.id)).toEqual(["x65"]);
});

test("a round that takes long is not begun again before its end", () => {
  const { timers, held, sent, answer } = slots();
  for (let i = 0; i < 66; i += 1) held.add(addLease(someCredits(), `x${i}`, 1, 0));
  timers.advance((2 * slotLeaseMs) / 3);
  expect(sent().map(({ length }) => length)).toEqual([64]);
  answer(0);
  answer(1);
  timers.advance(slotLeaseMs / 3);
  expect(sent().map(({ length }) => length)).toEqual([64, 2, 64]);
});

test("in a cluster, calls of one key each are under way together", () => {
  const { timers, held, sent, answer } = slots({ isClustered: true });
  for (let i = 0; i < 20; i += 1) held.add(addLease(someCredits(), `x${i}`, 1, 0));
  timers.advance(slotLeaseMs / 3);
  expect(sent()).toEqual(Array.from({ length: 16 }, () => [1]));
  answer(0);
  expect(sent()).toHaveLength(17);
});

test("where nobody can be asked, the others are renewed", () => {
  const renew = vi.fn<Renew>((renewals) => renewals.length === 2);
  const { timers, held } = slots({ renew });
  for (let i = 0; i < 66; i += 1) held.add(addLease(someCredits(), `x${i}`, 1, 0));
  timers.advance(slotLeaseMs / 3);
  expect(renew).toHaveBeenCalledTimes(2);
});

test("after the end nothing is renewed", () => {
  const { timers, held } = slots();
  held.add(addLease(someCredits(), "x", 1, 0));
  held.close();
  expect(timers.waiting).toBe(0);
});
