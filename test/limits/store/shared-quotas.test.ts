// Questions for a quota that gateways share: what a call does not charge goes back to the store.
import { expect, test } from "vitest";
import { SmallFleet } from "../../simulation/small-fleet.ts";
import { slidingPolicy } from "../../support/policy.ts";

test.each([
  ["more than its limit", 6],
  ["less than its limit, and more than is left", 3],
])("units of a shadow policy are given back, where a call asks for %s", async (_, hits) => {
  const shadow = slidingPolicy({ name: "shadow", limit: 5, windowMs: 60_000, mode: "shadow" });
  const fleet = await SmallFleet.start([slidingPolicy({ limit: 100, windowMs: 60_000 }), shadow]);
  for (let call = 0; call < 3; call += 1) {
    fleet.askQuota(0, {}, hits);
    await fleet.pass(50);
  }
  await fleet.pass(1_000);
  expect(fleet.outcomes(0, "per-ip")).toMatchObject({ admitted: 3 });
  expect(fleet.figures(0)).toMatchObject({ heldUnits: 0, heldLeases: 0 });
});
