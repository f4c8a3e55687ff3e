// The keys that stand in the store: how long one stays, and the bound on those that one gateway makes.
import { expect, test } from "vitest";
import type { Decision, Policy } from "../../../src/core/policy.ts";
import { NewKeys } from "../../../src/limits/store/shared-key.ts";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { smallPlan } from "../../simulation/small-plan.ts";
import { slidingPolicy } from "../../support/policy.ts";

function full(): NewKeys {
  const keys = new NewKeys(2, 1_000);
  keys.add(0);
  expect(keys.hasRoom(999)).toBe(true);
  keys.add(999);
  return keys;
}

test("no window has more new keys than the bound", () => {
  const keys = full();
  expect([999, 1_000, 1_998].map((nowMs) => keys.hasRoom(nowMs))).toEqual([false, false, false]);
});

test("a new key is forgotten after two windows at the latest", () => {
  const keys = full();
  expect(keys.hasRoom(1_500)).toBe(false);
  expect(keys.hasRoom(2_500)).toBe(true);
});

test("after a long silence there is room at once", () => {
  expect(full().hasRoom(2_000)).toBe(true);
});

const window = (windowMs: number): Policy => slidingPolicy({ limit: 100, windowMs });
const minutes: Policy = { ...window(1), rate: { kind: "calendar", per: "minute", timezone: "UTC" } };

test("a client that always asks has two keys of a quota by the minute at most", async () => {
  const fleet = await SmallFleet.start([minutes]);
  const stored = new Set<number>();
  for (let turn = 0; turn < 24; turn += 1) {
    fleet.ask(0, {});
    await fleet.pass(15_000);
    stored.add(fleet.storedCounters.length);
  }
  expect([...stored]).toEqual([1, 2]);
});

test.each([
  ["a minute of the calendar", minutes, 7_500],
  ["a minute", window(60_000), 7_400],
  ["a second", window(1_000), 125],
  ["100 ms", window(100), 12],
])("a flood of addresses leaves no more counters than maxKeys: %s", async (_, policy, everyMs) => {
  const { settings } = smallPlan({});
  const fleet = await SmallFleet.start([policy], { settings: { ...settings, maxKeys: 40 } });
  let most = 0;
  for (let turn = 0; turn < 30; turn += 1) {
    // Of one network, which is counted as one beyond the bound.
    for (let i = 0; i < 8; i += 1) fleet.ask(0, { client: `192.0.2.${turn * 8 + i}` });
    await fleet.pass(everyMs);
    const ofClients = fleet.storedCounters.filter((key) => key.includes("{a"));
    most = Math.max(most, ofClients.length);
  }
  // A key is new when the store has answered, and all of a turn are asked for at once.
  expect(most).toBeLessThanOrEqual(40 + 8);
  // When nothing counts any more, nobody remembers anything.
  expect(fleet.remembered(0)).toBeGreaterThan(0);
  await fleet.pass(120_000);
  expect([fleet.storedCounters, fleet.remembered(0), fleet.remembered(1)]).toEqual([[], 0, 0]);
});

test("a flood of addresses takes no quota of a client that is known, nor of one of another network", async () => {
  const { settings } = smallPlan({});
  const fleet = await SmallFleet.start([window(60_000)], { settings: { ...settings, maxKeys: 40 } });
  const [known, other] = [{ client: "192.0.2.7" }, { client: "198.51.100.9" }];
  const asked = [fleet.ask(0, known, 60)];
  await fleet.pass(50);
  const flood: (readonly Decision[])[] = [];
  for (let i = 0; i < 240; i += 1) {
    flood.push(fleet.ask(0, { client: `10.0.0.${i}` }));
    await fleet.pass(10);
  }
  // What is beyond the bound is one client.
  expect(admitted(flood.flat())).toBeLessThan(150);
  asked.push(fleet.ask(0, known, 60), fleet.ask(0, other, 20));
  await fleet.pass(50);
  expect(asked.map(admitted)).toEqual([60, 40, 20]);
});
