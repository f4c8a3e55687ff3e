// A gateway that was refused units which another one held and did not spend: how soon after they came back it admits again.
import { expect, test } from "vitest";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { smallPlan } from "../../simulation/small-plan.ts";
import { slidingPolicy } from "../../support/policy.ts";

const everyone = { ...slidingPolicy({ name: "all", limit: 3, windowMs: 3_600_000 }), key: [] };
const slots = { ...slidingPolicy({ name: "slots", limit: 2, windowMs: 1 }), rate: { kind: "concurrency" } } as const;
const holder = { client: "192.0.2.1" };

/** Units are leased for 100 ms; messages take two. */
async function stage(): Promise<SmallFleet> {
  const fleet = await SmallFleet.start([slots, everyone], { settings: { ...smallPlan({}).settings, waitMs: 50 } });
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

/** The holder has no slot left at the first gateway, which then has the last unit of all for some time. */
async function takesInVain(fleet: SmallFleet): Promise<void> {
  fleet.ask(0, holder, 2);
  await fleet.pass(5);
}

test("units on their way back are asked for again at once, however often they were refused before", async () => {
  const fleet = await stage();
  for (let i = 0; i < 6; i += 1) {
    await takesInVain(fleet);
    expect(await asksOther(fleet)).toBe(false);
    await fleet.pass(90);
    // The lease is over, and the other gateway does not look at it before the end of its interval.
    expect(await asksOther(fleet)).toBe(false);
    await fleet.pass(25);
  }
  await fleet.pass(125);
  expect(await asksOther(fleet)).toBe(true);
});

test("units that come back late are asked for again within seconds", async () => {
  const fleet = await stage();
  for (let i = 0; i < 6; i += 1) {
    await takesInVain(fleet);
    expect(await asksOther(fleet)).toBe(false);
    await fleet.pass(126);
  }
  await takesInVain(fleet);
  fleet.standStill(0, 1_000);
  for (let i = 0; i < 8; i += 1) {
    expect(await asksOther(fleet)).toBe(false);
    await fleet.pass(100);
  }
  await fleet.pass(7_000);
  expect(await asksOther(fleet)).toBe(true);
});
