// Answers of the store that a gateway sees late: because the store is slow, or because the gateway stood still.
import { describe, expect, test } from "vitest";
import { warmUpMs } from "../../simulation/plan.ts";
import { beginWallMs } from "../../simulation/simulated-store.ts";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { smallPlan } from "../../simulation/small-plan.ts";
import { World } from "../../simulation/world.ts";
import { slidingPolicy } from "../../support/policy.ts";

const client = { client: "192.0.2.1" };
const waitMs = 10;
/** Units may be spent for 100 ms. */
const start = (limit = 10) => SmallFleet.start([slidingPolicy({ limit, windowMs: 60_000 })]);

test("units that came too late for their request are there for the next one", async () => {
  const fleet = await start();
  fleet.delay(20);
  const first = fleet.ask(0, client);
  await fleet.pass(2 * waitMs);
  expect(admitted(first)).toBe(1);
  expect(fleet.figures(0)).toMatchObject({ state: "slow", heldUnits: 0, late: 1, alone: { local: 1 } });
  await fleet.pass(30);
  expect(fleet.figures(0)).toMatchObject({ state: "up", heldUnits: 1 });
  expect(admitted(fleet.ask(0, client))).toBe(1);
  expect(fleet.figures(0)).toMatchObject({ heldUnits: 0, late: 1 });
});

test("units that a request has found are not spent by others while it waits for those of another policy", async () => {
  const others = { client: "192.0.2.2" };
  const fleet = await SmallFleet.start([
    { ...slidingPolicy({ name: "all", limit: 10, windowMs: 60_000 }), key: [] },
    slidingPolicy({
      ...{ name: "own", limit: 10, windowMs: 60_000 },
      overrides: [{ part: "client", value: `${others.client}/32`, limit: 0 }],
    }),
  ]);
  fleet.delay(20);
  fleet.ask(0, others);
  await fleet.pass(41);
  fleet.delay(1);
  const [first, second] = [fleet.ask(0, client), fleet.ask(0, others)];
  expect([first, second].map(admitted)).toEqual([0, 0]);
  await fleet.pass(3);
  expect([first, second].map(admitted)).toEqual([1, 1]);
});

test("each request that is decided while an answer is overdue is counted as late", async () => {
  const fleet = await start();
  fleet.delay(100);
  fleet.ask(0, client, 2);
  await fleet.pass(2 * waitMs);
  fleet.ask(0, { client: "192.0.2.2" }, 3);
  expect(fleet.figures(0).late).toBe(5);
  expect(fleet.figures(1).late).toBe(0);
});

test("what was admitted while an answer was overdue is known to the others once it has come", async () => {
  const fleet = await start(4);
  fleet.delay(20);
  const other = { client: "192.0.2.2" };
  const waited = fleet.ask(0, client, 2);
  await fleet.pass(25);
  // Nobody waits any more.
  const alone = fleet.ask(0, other, 2);
  expect([waited, alone].map(admitted)).toEqual([2, 2]);
  fleet.delay(1);
  await fleet.pass(100);
  const later = [fleet.ask(1, client, 4), fleet.ask(1, other, 4)];
  await fleet.pass(30);
  expect(later.map(admitted)).toEqual([2, 2]);
});

test("requests that are decided while the store is away are not", async () => {
  const fleet = await start();
  fleet.delay(3_600_000);
  fleet.ask(0, client);
  await fleet.pass(2000);
  expect(fleet.figures(0)).toMatchObject({ state: "away", late: 1 });
  fleet.ask(0, client);
  expect(fleet.figures(0)).toMatchObject({ late: 1, alone: { local: 2 } });
});

describe("a gateway that stands still while it waits for the store", () => {
  test.each([
    ["the answer comes meanwhile", 60, 20],
    ["the store stood still too, and answers just afterwards", 60, 33],
    ["what was granted is over when it is seen", 200, 2],
  ])("does not decide without it: %s", async (_, forMs, delayMs) => {
    const fleet = await start(1);
    fleet.delay(delayMs);
    const asked = fleet.ask(0, client);
    await fleet.pass(1);
    fleet.standStill(0, forMs);
    await fleet.pass(forMs + 5);
    fleet.delay(1);
    await fleet.pass(200);
    expect(admitted(asked)).toBe(1);
    expect(fleet.figures(0)).toMatchObject({ state: "up", late: 0, waited: { overdue: 0 } });
    expect(admitted(fleet.ask(1, client))).toBe(0);
  });

  test("decides alone when it has seen three grants that were over", async () => {
    const fleet = await start(1);
    const asked = fleet.ask(0, client);
    for (let i = 0; i < 3; i += 1) {
      expect(fleet.figures(0)).toMatchObject({ units: { granted: i, returned: i }, alone: { local: 0 } });
      await fleet.pass(1);
      fleet.standStill(0, 200);
      await fleet.pass(200);
    }
    await fleet.pass(30);
    expect([admitted(asked), fleet.figures(0).alone.local]).toEqual([1, 1]);
    // All that was granted is back, and what was admitted is told.
    expect([admitted(fleet.ask(0, client)), fleet.figures(0).heldUnits]).toEqual([0, 0]);
  });

  test("does not take the store for slow or away", async () => {
    const lines: string[] = [];
    const delays = { leastMs: 5, mostMs: 5, lateShare: 0, lateMs: 0 };
    const { time, gateways } = new World(smallPlan({ delays }), (line) => lines.push(line));
    await time.runUntil(warmUpMs);
    expect(lines.some((line) => line.includes("returned → up"))).toBe(true);
    lines.length = 0;
    // At different instants of a heartbeat, which is the only call.
    for (let i = 0; i < 40; i += 1) {
      await time.runUntil(1000 * Math.ceil(time.nowMs / 1000) + i);
      gateways[0]?.pause(2000);
      await time.runUntil(time.nowMs + 2500);
    }
    expect(lines.filter((line) => /(up|slow|away) →/.test(line))).toEqual([]);
  });
});

test("units that came too late for a request that has asked twice are there for others", async () => {
  const limit = 5;
  const rate = { kind: "calendar", per: "minute", timezone: "UTC" } as const;
  const settings = { ...smallPlan({}).settings, waitMs: 50 };
  const fleet = await SmallFleet.start([{ ...slidingPolicy({ limit, windowMs: 1 }), rate }], { settings });
  // The gateway learns in which minute the store is.
  fleet.ask(0, client);
  await fleet.pass(60_000 - ((beginWallMs + warmUpMs) % 60_000) - 5);
  fleet.delay(15);
  // The first answer says that the minute is over, and leaves 20 ms for the second, which needs 30.
  const late = fleet.ask(0, client);
  await fleet.pass(1_000);
  fleet.delay(1);
  const others = fleet.ask(0, client, limit);
  await fleet.pass(100);
  expect([late, others].map(admitted)).toEqual([1, limit - 1]);
  // A refusal from memory needs no call.
  const { answered } = fleet.figures(0).calls;
  fleet.ask(0, client);
  await fleet.pass(100);
  expect(fleet.figures(0).calls.answered - answered).toBeLessThanOrEqual(2);
});
