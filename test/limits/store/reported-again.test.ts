// What became of units is reported until the store has heard of it, also over a connection that breaks.
import { describe, expect, test } from "vitest";
import type { Decision, Policy } from "../../../src/core/policy.ts";
import { mostReports } from "../../../src/limits/store/script-call.ts";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { gatewayPlan } from "../../simulation/small-plan.ts";
import { slidingPolicy } from "../../support/policy.ts";

const limit = 8;
const client = { client: "192.0.2.1" };
const failed = slidingPolicy({ limit, windowMs: 40_000, chargeStatuses: [401] });
const minute = { kind: "calendar", per: "minute", timezone: "UTC" } as const;
const slots = { ...slidingPolicy({ limit, windowMs: 1 }), rate: { kind: "concurrency" } } as const;

function end(decisions: readonly Decision[], status: number): void {
  for (const { held } of decisions) held?.end(status);
}

/** Of a second gateway, how many of as many requests as the limit are admitted, and how long the last one has to wait. */
async function askElsewhere(fleet: SmallFleet) {
  const decisions = fleet.ask(1, client, 2 * limit);
  await fleet.pass(20);
  const waitMs = (decisions.at(-1)?.resetMs ?? Number.NaN) - fleet.nowMs(1);
  return { count: admitted(decisions), waitMs };
}

describe.each<[string, Policy]>([
  ["in a window", failed],
  ["in a period of the calendar", { ...failed, rate: minute }],
  ["of slots", slots],
])("units %s", (_, policy) => {
  test.each([
    ["while they are reported", 1],
    ["when the store has answered nothing yet", 3],
    ["before they are", 0],
  ])("that are given back are free, though the connection breaks %s", async (_when, reportedMs) => {
    const fleet = await SmallFleet.start([policy]);
    await fleet.pass(5_000);
    const decisions = fleet.ask(0, client, limit);
    await fleet.pass(20);
    expect(admitted(decisions)).toBe(limit);
    if (reportedMs > 0) end(decisions, 200);
    await fleet.pass(reportedMs);
    fleet.breakConnections(500);
    if (reportedMs === 0) end(decisions, 200);
    await fleet.pass(2_000);
    expect(await askElsewhere(fleet)).toMatchObject({ count: limit });
  });

  test("that were admitted while it was away are free when they are given back, also long after", async () => {
    const fleet = await SmallFleet.start([policy]);
    await fleet.pass(5_000);
    fleet.breakConnections(500);
    await fleet.pass(100);
    const decisions = fleet.ask(0, client, limit);
    await fleet.pass(2_000);
    end(decisions, 200);
    await fleet.pass(200);
    expect(admitted(decisions)).toBe(limit / 2);
    expect(await askElsewhere(fleet)).toMatchObject({ count: limit });
  });

  test("that were granted by an answer which was lost are free", async () => {
    const fleet = await SmallFleet.start([policy]);
    await fleet.pass(5_000);
    const decisions = fleet.ask(0, client, limit);
    // The store has granted them.
    await fleet.pass(1.7);
    fleet.breakConnections(500);
    await fleet.pass(300);
    end(decisions, 200);
    await fleet.pass(2_000);
    expect(await askElsewhere(fleet)).toMatchObject({ count: limit });
  });
});

describe.each<[string, Policy]>([
  ["in a window", failed],
  ["in a period of the calendar", { ...failed, rate: minute }],
])("units %s that are kept count", (_, policy) => {
  /** One is kept before the store fails, as many as said are held then, and one is admitted meanwhile. */
  async function startWith(held: number, fail: (fleet: SmallFleet) => void) {
    const fleet = await SmallFleet.start([policy]);
    await fleet.pass(5_000);
    const decisions = fleet.ask(0, client, 1 + held);
    await fleet.pass(20);
    end(decisions.slice(0, 1), 401);
    await fleet.pass(200);
    fail(fleet);
    await fleet.pass(100);
    const meanwhile = fleet.ask(0, client, 1);
    await fleet.pass(20);
    return { fleet, before: decisions.slice(1), meanwhile };
  }

  test.each<[string, number, (fleet: SmallFleet) => void]>([
    ["when the store was away meanwhile", 0, (fleet) => fleet.breakConnections(500)],
    ["when it was away while they were held", 1, (fleet) => fleet.breakConnections(500)],
    ["when it has forgotten them", 1, (fleet) => fleet.flushStore()],
  ])("%s", async (_when, held, fail) => {
    const { fleet, before, meanwhile } = await startWith(held, fail);
    await fleet.pass(4_000);
    end([...before, ...meanwhile], 401);
    await fleet.pass(200);
    expect(await askElsewhere(fleet)).toMatchObject({ count: limit - 2 - held });
  });

  test("once, though they are more than one call reports", async () => {
    const count = 3 * mostReports;
    const fleet = await SmallFleet.start([{ ...policy, limit: limit + count }]);
    await fleet.pass(5_000);
    const decisions = fleet.ask(0, client, count);
    await fleet.pass(20);
    fleet.breakConnections(500);
    end(decisions, 401);
    await fleet.pass(2_000);
    expect(await askElsewhere(fleet)).toMatchObject({ count: limit });
  });

  test("once, whichever thread of their gateway tells of them first", async () => {
    for (let seed = 0; seed < 5; seed += 1) {
      const gateways = [gatewayPlan({ threads: 2 }), gatewayPlan({})];
      const fleet = await SmallFleet.start([policy], { seed, gateways });
      await fleet.pass(5_000);
      const decisions = fleet.ask(0, client, 2);
      await fleet.pass(20);
      fleet.breakConnections(500);
      end(decisions, 401);
      await fleet.pass(2_000);
      expect(await askElsewhere(fleet)).toMatchObject({ count: limit - 2 });
    }
  });

  test("beside others that are held, and given back afterwards", async () => {
    const { fleet, before, meanwhile } = await startWith(1, (failing) => failing.breakConnections(500));
    end(meanwhile, 401);
    await fleet.pass(4_000);
    end(before, 200);
    await fleet.pass(200);
    expect(await askElsewhere(fleet)).toMatchObject({ count: limit - 2 });
  });
});

test.each([
  ["in a window", failed, 23_000],
  ["in a period of the calendar", { ...failed, rate: minute }, 30_000],
])("a refusal beside units %s of a gateway that has died says soon when they end", async (_, policy, leastMs) => {
  const fleet = await SmallFleet.start([policy]);
  await fleet.pass(2_500);
  fleet.ask(0, client, limit);
  await fleet.pass(20);
  fleet.restart(0);
  expect((await askElsewhere(fleet)).waitMs).toBeLessThanOrEqual(1_000);
  await fleet.pass(11_000);
  const { count, waitMs } = await askElsewhere(fleet);
  expect(count).toBe(0);
  expect(waitMs).toBeGreaterThan(leastMs);
  await fleet.pass(waitMs);
  expect((await askElsewhere(fleet)).count).toBe(limit);
});
