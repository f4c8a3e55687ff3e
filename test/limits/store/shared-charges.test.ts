// Policies with `charge` that gateways share: what a refusal says beside units that requests at another gateway hold.
import { describe, expect, test } from "vitest";
import type { Decision, Policy } from "../../../src/core/policy.ts";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { slidingPolicy } from "../../support/policy.ts";

const limit = 4;
const windowMs = 40_000;
const minute = { kind: "calendar", per: "minute", timezone: "UTC" } as const;
const policy = slidingPolicy({ limit, windowMs, chargeStatuses: [401] });

async function start(policies: readonly Policy[]) {
  const fleet = await SmallFleet.start(policies);
  await fleet.pass(5_000);
  const ask = async (place: number, count: number) => {
    const decisions = fleet.ask(place, {}, count);
    await fleet.pass(50);
    return decisions;
  };
  /** For how long one more request is refused; null if it is admitted, and then gives its unit back. */
  const refusedMs = async (place: number) => {
    const [decision] = await ask(place, 1);
    if (decision?.outcome === "throttled") return decision.resetMs - fleet.nowMs(place) + 50;
    await end([decision], 200);
    return null;
  };
  const end = async (decisions: readonly (Decision | undefined)[], status: number) => {
    for (const decision of decisions) decision?.held?.end(status);
    await fleet.pass(200);
  };
  return { ask, refusedMs, end };
}

describe.each<[string, Policy]>([
  ["in a window", policy],
  ["in a period of the calendar", { ...policy, rate: minute }],
  ["in a window with grouped instants", { ...policy, limit: 1_000, cost: 250 }],
])("a refusal %s", (_, shared) => {
  test("beside units that another gateway holds promises a second, and the next request is admitted when they are back", async () => {
    const { ask, refusedMs, end } = await start([shared]);
    const held = await ask(0, limit);
    expect(admitted(held)).toBe(limit);
    for (const place of [1, 0, 1]) expect(await refusedMs(place)).toBeLessThanOrEqual(1_010);
    await end(held, 200);
    for (const place of [1, 0, 1]) expect(await refusedMs(place)).toBeNull();
  });

  test("beside units that another gateway has kept says when it ends, also while others are held that are too few", async () => {
    const { ask, refusedMs, end } = await start([shared]);
    const held = await ask(0, limit);
    await end(held.slice(1), 401);
    for (const place of [1, 0]) expect(await refusedMs(place)).toBeLessThanOrEqual(1_010);
    await end(held.slice(0, 1), 401);
    for (const place of [1, 0]) expect(await refusedMs(place)).toBeGreaterThan(30_000);
  });
});

test.each<[string, Policy, number, { spent: number; returned: number }]>([
  [
    "slots are returned",
    { ...policy, rate: { kind: "concurrency" }, chargeStatuses: null },
    200,
    { spent: 0, returned: 3 },
  ],
  ["a charge that the status keeps is spent", policy, 401, { spent: 3, returned: 0 }],
  ["a charge that the status does not keep is returned", policy, 200, { spent: 0, returned: 3 }],
])(
  "of units that the store has granted, %s when the requests end, and held before",
  async (_, shared, status, after) => {
    const fleet = await SmallFleet.start([shared]);
    await fleet.pass(5_000);
    const decisions = fleet.ask(0, {}, 3);
    await fleet.pass(50);
    expect(fleet.figures(0)).toMatchObject({
      units: { granted: 3, spent: 0, returned: 0 },
      heldUnits: 3,
      heldLeases: 0,
    });
    for (const decision of decisions) decision.held?.end(status);
    await fleet.pass(200);
    expect(fleet.figures(0)).toMatchObject({ units: { granted: 3, ...after }, heldUnits: 0, heldLeases: 0 });
  },
);
