// The renewal of slots that requests hold.
import { expect, test } from "vitest";
import { slotLeaseMs } from "../../../src/limits/store/counter-rules.ts";
import { HeldSlots, type Renewal, sendAll } from "../../../src/limits/store/reports.ts";
import { mostItems, mostReports } from "../../../src/limits/store/script-call.ts";
import { ManualTimers } from "./manual-timers.ts";
import { addLease, someKey } from "./some-keys.ts";
import { settled } from "./store-scene.ts";

function slots() {
  const timers = new ManualTimers();
  const renewed: (readonly Renewal[])[] = [];
  const answers: (() => void)[] = [];
  const send = (renewals: readonly Renewal[]): Promise<boolean> => {
    renewed.push(renewals);
    return new Promise((resolve) => answers.push(() => resolve(true)));
  };
  const held = new HeldSlots(timers, (renewals) => sendAll(renewals, { mostItems, mostCalls: 1 }, send, () => {}));
  /** For each call, how many slots its renewals are about. */
  const sent = () => renewed.map((renewals) => renewals.map(({ reports }) => reports.length));
  const advance = async (ms: number): Promise<void> => {
    timers.advance(ms);
    await settled();
  };
  const answer = async (): Promise<void> => {
    answers.shift()?.();
    await settled();
  };
  return { timers, renewed, held, sent, advance, answer };
}

test("a slot is renewed twice before the store would free it, as long as it is held", async () => {
  const { timers, renewed, held, advance, answer } = slots();
  const key = someKey();
  const lease = addLease(key, "x", 2, 0);
  held.add(lease);
  await advance(slotLeaseMs / 2);
  await answer();
  await advance(slotLeaseMs / 2 - 1);
  const renewal = { key, reports: [{ id: "x", granted: 2, spent: 2, ageUs: 0 }] };
  expect(renewed).toEqual([[renewal], [renewal]]);
  held.delete(lease);
  await answer();
  await advance(slotLeaseMs);
  expect(renewed).toHaveLength(2);
  expect(timers.waiting).toBe(0);
});

test("slots are renewed by key, more of one key than an item may have by later calls", async () => {
  const { renewed, held, sent, advance, answer } = slots();
  const [one, two] = [someKey(), someKey()];
  for (let i = 0; i <= mostReports; i += 1) held.add(addLease(one, `x${i}`, 1, 0));
  held.add(addLease(two, "y", 1, 0));
  await advance(slotLeaseMs / 3);
  for (let i = 0; i < 5; i += 1) await answer();
  expect(sent()).toEqual([[8, 1], [8], [8], [8], [1]]);
  expect(renewed[0]?.map(({ key }) => key === one)).toEqual([true, false]);
});

test("the slots of many keys are renewed by one call after the other", async () => {
  const { held, sent, advance, answer } = slots();
  for (let i = 0; i < 150; i += 1) held.add(addLease(someKey(), `x${i}`, 1, 0));
  await advance(slotLeaseMs / 3);
  expect(sent().map(({ length }) => length)).toEqual([64]);
  await answer();
  await answer();
  expect(sent().map(({ length }) => length)).toEqual([64, 64, 22]);
  await answer();
  expect(sent()).toHaveLength(3);
});

test("a slot that is given back while others are renewed is not taken again", async () => {
  const { renewed, held, advance, answer } = slots();
  const leases = Array.from({ length: 66 }, (_, i) => addLease(someKey(), `x${i}`, 1, 0));
  for (const lease of leases) held.add(lease);
  await advance(slotLeaseMs / 3);
  if (leases[64] !== undefined) held.delete(leases[64]);
  await answer();
  expect(renewed[1]?.map(({ reports }) => reports[0]?.id)).toEqual(["x65"]);
});

test("a round that takes long is not begun again before its end", async () => {
  const { held, sent, advance, answer } = slots();
  for (let i = 0; i < 66; i += 1) held.add(addLease(someKey(), `x${i}`, 1, 0));
  await advance((2 * slotLeaseMs) / 3);
  expect(sent().map(({ length }) => length)).toEqual([64]);
  await answer();
  await answer();
  await advance(slotLeaseMs / 3);
  expect(sent().map(({ length }) => length)).toEqual([64, 2, 64]);
});

test("after the end nothing is renewed", () => {
  const { timers, held } = slots();
  held.add(addLease(someKey(), "x", 1, 0));
  held.close();
  expect(timers.waiting).toBe(0);
});
