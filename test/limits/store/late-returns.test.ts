// A gateway that was refused units which another one held and did not spend: how soon after they came back it admits again.
import { expect, test } from "vitest";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { smallPlan } from "../../simulation/small-plan.ts";
import { slidingPolicy } from "../../support/policy.ts";

const everyone = { ...slidingPolicy({ name: "all", limit: 3, windowMs: 3_600_000 }), key: [] };
const slots = { ...slidingPolicy({ name: "slots", limit: 2, windowMs: 1 }), rate: { kind: "concurrency" } } as const;
const holder = { client: "192.0.2.1" };

/** Units are leased for 100 ms; messages take two. What a gateway has no answer to, it refuses. */
const settings = { ...smallPlan({}).settings, waitMs: 50, onFailure: "closed" } as const;

/** In a cluster, where each shard grants what it has, whatever the other refuses. */
const shards = Array.from({ length: 3 }, () => ({ rate: 1, skewMs: 0 }));

/** A client has all its slots at the second gateway. `limit`: of all clients. */
async function stage(limit = 3): Promise<SmallFleet> {
  const fleet = await SmallFleet.start([slots, { ...everyone, limit }], { settings, shards });
  const held = fleet.ask(1, holder, 2);
  await fleet.pass(10);
  expect(admitted(held)).toBe(2);
  return fleet;
}

/** Others at the second gateway. */
let last = 0;
async function asksOther(fleet: SmallFleet): Promise<boolean> {
  last += 1;
  const asked = fleet.ask(1, { client: `198.51.100.${last % 250}` });
  await fleet.pass(5);
  return admitted(asked) === 1;
}

/** The holder asks at the first gateway, which then has the last unit of all, and does not look at it while it stands still. */
async function takesInVain(fleet: SmallFleet, standsStillMs: number): Promise<void> {
  fleet.ask(0, holder, 2);
  await fleet.pass(1);
  fleet.standStill(0, standsStillMs);
  await fleet.pass(4);
}

test("units on their way back are asked for again at once, however often they were refused before", async () => {
  const fleet = await stage();
  for (let i = 0; i < 6; i += 1) {
    await takesInVain(fleet, 108);
    expect(await asksOther(fleet)).toBe(false);
    await fleet.pass(90);
    // The lease is over, and the first gateway has not seen it yet.
    expect(await asksOther(fleet)).toBe(false);
    await fleet.pass(35);
  }
  await fleet.pass(125);
  expect(await asksOther(fleet)).toBe(true);
});

test("units that come back late are asked for again within seconds", async () => {
  const fleet = await stage();
  for (let i = 0; i < 6; i += 1) {
    await takesInVain(fleet, 108);
    expect(await asksOther(fleet)).toBe(false);
    await fleet.pass(136);
  }
  await takesInVain(fleet, 1_000);
  for (let i = 0; i < 8; i += 1) {
    expect(await asksOther(fleet)).toBe(false);
    await fleet.pass(100);
  }
  await fleet.pass(7_000);
  expect(await asksOther(fleet)).toBe(true);
});

test("units of requests that another policy refuses are back at once", async () => {
  const fleet = await stage(5);
  for (let i = 0; i < 3; i += 1) {
    const refused = fleet.ask(0, holder, 2);
    await fleet.pass(8);
    expect(refused.map(({ policy: { name } }) => name)).toEqual(["slots", "slots"]);
    expect(await asksOther(fleet)).toBe(true);
    await fleet.pass(25);
  }
});

test("a refusal beside units that this thread is about to return is asked once more", async () => {
  const fleet = await stage();
  const [refused, other] = [fleet.ask(0, holder), fleet.ask(0, { client: "198.51.100.1" })];
  await fleet.pass(30);
  expect([refused, other].map(admitted)).toEqual([0, 1]);
});

test("units of a request that another policy refuses are there for one that asks while its call is under way", async () => {
  const own = slidingPolicy({ name: "own", limit: 1, windowMs: 3_600_000 });
  const fleet = await SmallFleet.start([own], { settings });
  const used = fleet.ask(1, holder);
  await fleet.pass(10);
  fleet.reload([own, { ...everyone, limit: 1 }]);
  const refused = fleet.ask(0, holder);
  await fleet.pass(0.8);
  const other = fleet.ask(0, { client: "198.51.100.1" });
  await fleet.pass(30);
  expect([used, refused, other].map(admitted)).toEqual([1, 0, 1]);
});

test.each([1, 200])("a flood of requests that another policy refuses, %i at once, makes few calls", async (burst) => {
  const fleet = await stage(900);
  const before = fleet.figures(0).calls.answered;
  const floodMs = 200;
  for (let ms = 0; ms < floodMs; ms += 2) {
    fleet.ask(0, holder, burst);
    await fleet.pass(2);
  }
  const calls = fleet.figures(0).calls.answered - before;
  // A refusal by slots is remembered for 20 ms. Until it is known, each turn asks; then what was granted is returned.
  expect(calls / (floodMs / 20)).toBeGreaterThan(1);
  expect(calls / (floodMs / 20)).toBeLessThan(4);
});
