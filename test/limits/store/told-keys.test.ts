// What the store hears of a key when it is asked for, after it may have forgotten.
import { expect, test } from "vitest";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { slidingPolicy } from "../../support/policy.ts";

const policy = slidingPolicy({ limit: 10, windowMs: 40_000 });

test("what a gateway has admitted alone after it began to tell is told when its key is asked for", async () => {
  const fleet = await SmallFleet.start([policy]);
  fleet.stepStore(60_000);
  // A heartbeat notices the step; for two heartbeats from then on, gateways tell what they had admitted before.
  await fleet.pass(1_500);
  expect(fleet.figures(0).shards.returned).toBe(1);
  const alone = fleet.ask(0, {}, 20);
  expect(admitted(alone)).toBe(5);
  await fleet.pass(3_000);
  expect(fleet.figures(0).shards.up).toBe(1);
  const together = [fleet.ask(0, {}, 1)];
  await fleet.pass(50);
  together.push(fleet.ask(1, {}, 20));
  await fleet.pass(50);
  expect(together.map(admitted)).toEqual([1, 4]);
});
