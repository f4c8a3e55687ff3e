// A key that several clients share: none of them decides what the others get of it.
import { expect, test } from "vitest";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { slidingPolicy } from "../../support/policy.ts";

const evil = { client: "192.0.2.66" };
const good = { client: "198.51.100.1" };

const lowered = slidingPolicy({
  ...{ name: "all", limit: 500, windowMs: 60_000, key: [{ kind: "route" }] },
  overrides: [{ part: "client", value: "192.0.2.66/32", limit: 10 }],
});

test("a refusal below the limit of an override does not refuse those with another limit", async () => {
  const fleet = await SmallFleet.start([lowered]);
  const first = fleet.ask(1, good, 20);
  await fleet.pass(30);
  const refused = fleet.ask(0, evil);
  await fleet.pass(30);
  const later = fleet.ask(0, good, 5);
  await fleet.pass(30);
  expect([admitted(first), admitted(refused), admitted(later)]).toEqual([20, 0, 5]);
});

test("requests with different limits of one key that arrive together are each asked with their own", async () => {
  const fleet = await SmallFleet.start([lowered]);
  const first = fleet.ask(1, good, 20);
  await fleet.pass(30);
  const asked = [fleet.ask(0, good, 5), fleet.ask(0, evil), fleet.ask(0, good, 5)];
  await fleet.pass(30);
  expect([admitted(first), ...asked.map(admitted)]).toEqual([20, 5, 0, 5]);
});
