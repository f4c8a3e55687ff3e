// A reload that changes a limit, or what a request costs, while gateways hold units that they were granted before it.
import { describe, expect, test } from "vitest";
import type { Decision, Policy } from "../../../src/core/policy.ts";
import type { Plan } from "../../simulation/plan.ts";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { slidingPolicy } from "../../support/policy.ts";

const client = { client: "192.0.2.1" };

function policyOf(limit: number, policy: Partial<Policy> = {}): Policy {
  return { ...slidingPolicy({ limit, windowMs: 600_000 }), ...policy };
}

function leasing(durationMs: number): Pick<Plan, "settings"> {
  const lease = { durationMs, most: 1000 };
  return { settings: { prefix: "headgate:", waitMs: 10, onFailure: "local", replicas: "auto", maxKeys: 1e5, lease } };
}

/** Both gateways admit requests of the client, and then hold units for more. */
async function used(fleet: SmallFleet, requests: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < requests / 4; i += 1) {
    const asked = [0, 1].map((place) => fleet.ask(place, client, 2));
    await fleet.pass(5);
    count += admitted(asked.flat());
  }
  return count;
}

describe.each([200, 1000, 10_000])("with leases of %d ms", (durationMs) => {
  test("units that were leased by a higher limit are not spent by a lower one", async () => {
    const fleet = await SmallFleet.start([policyOf(5000)], leasing(durationMs));
    expect(await used(fleet, 1200)).toBe(1200);
    fleet.reload([policyOf(1000)]);
    expect(await used(fleet, 120)).toBe(0);
  });

  test("after the limit is raised again, nobody waits for what was given back", async () => {
    const fleet = await SmallFleet.start([policyOf(5000)], leasing(durationMs));
    await used(fleet, 1200);
    fleet.reload([policyOf(1000)]);
    await used(fleet, 120);
    fleet.reload([policyOf(5000)]);
    expect(await used(fleet, 1200)).toBe(1200);
  });
});

test("what was leased before two reloads is not spent when the second brings the lower limit back", async () => {
  const fleet = await SmallFleet.start([policyOf(2000)], leasing(10_000));
  expect(await used(fleet, 800)).toBe(800);
  fleet.reload([policyOf(5000)]);
  // The other gateway gets none meanwhile, and does not see the higher limit.
  let more = 0;
  for (let i = 0; i < 10; i += 1) {
    const decisions = fleet.ask(0, client, 200);
    await fleet.pass(60);
    more += admitted(decisions);
  }
  expect(more).toBe(2000);
  fleet.reload([policyOf(2000)]);
  const later = fleet.ask(1, client, 500);
  await fleet.pass(60);
  expect([later.length, admitted(later)]).toEqual([500, 0]);
});

test("a quota of the calendar is judged by the limit in force too", async () => {
  const rate = { kind: "calendar", per: "hour", timezone: "UTC" } as const;
  const fleet = await SmallFleet.start([policyOf(5000, { rate })], leasing(1000));
  expect(await used(fleet, 1200)).toBe(1200);
  fleet.reload([policyOf(1000, { rate })]);
  expect(await used(fleet, 120)).toBe(0);
});

test("what is granted by the limit before, after the reload, is not spent by the one in force", async () => {
  const fleet = await SmallFleet.start([policyOf(5000)], leasing(1000));
  await used(fleet, 1200);
  await fleet.pass(5000);
  fleet.ask(0, client, 20);
  await fleet.pass(0.5);
  fleet.reload([policyOf(1000)]);
  const later = fleet.ask(0, client, 20);
  await fleet.pass(30);
  expect([later.length, admitted(later)]).toEqual([20, 0]);
});

test("a refusal by the limit before, after the reload, refuses nobody by the one in force", async () => {
  const fleet = await SmallFleet.start([policyOf(1000)], leasing(1000));
  await used(fleet, 1200);
  await fleet.pass(5000);
  fleet.ask(0, client);
  await fleet.pass(0.5);
  fleet.reload([policyOf(5000)]);
  const waiting = fleet.ask(0, client);
  await fleet.pass(2);
  const later = fleet.ask(0, client, 20);
  await fleet.pass(30);
  expect(admitted([...waiting, ...later])).toBe(21);
});

describe("after a reload that gives a policy a `charge`", () => {
  const charging = policyOf(5000, { chargeStatuses: [401] });

  /** The first of the requests gives its unit back. Then a client uses up at another gateway what is left. */
  async function totalOf(fleet: SmallFleet, before: number, decisions: readonly Decision[]): Promise<number> {
    for (const [i, { held }] of decisions.entries()) held?.end(i === 0 ? 200 : 401);
    await fleet.pass(15_000);
    let total = before + admitted(decisions) - 1;
    for (let i = 0; i < 45; i += 1) {
      const more = fleet.ask(1, client, 100);
      await fleet.pass(200);
      for (const { held } of more) held?.end(401);
      total += admitted(more);
    }
    return total;
  }

  test("what was leased ahead is not given back with the unit of one request", async () => {
    const fleet = await SmallFleet.start([policyOf(5000)], leasing(10_000));
    expect(await used(fleet, 1200)).toBe(1200);
    fleet.reload([charging]);
    const decisions = fleet.ask(0, client, 100);
    await fleet.pass(50);
    expect(await totalOf(fleet, 1200, decisions)).toBe(5000);
  });

  test("what is leased ahead by a call that was under way is not either", async () => {
    const fleet = await SmallFleet.start([policyOf(5000)], leasing(10_000));
    await used(fleet, 1200);
    fleet.delay(3);
    // Little is left, so a call asks for more, and no request waits for it.
    const first = fleet.ask(0, client, fleet.figures(0).heldUnits - 40);
    await fleet.pass(1);
    fleet.reload([charging]);
    const decisions = fleet.ask(0, client, 100);
    await fleet.pass(50);
    expect(await totalOf(fleet, 1200 + admitted(first), decisions)).toBe(5000);
  });
});

test("a refusal of what a request has cost before refuses nobody whose requests cost less", async () => {
  const dear = policyOf(95, { cost: 10 });
  const fleet = await SmallFleet.start([dear]);
  // What is refused again and again is remembered for longer and longer.
  for (let i = 0; i < 100; i += 1) {
    fleet.ask(0, client);
    fleet.ask(1, client);
    await fleet.pass(100);
  }
  fleet.reload([{ ...dear, cost: 1 }]);
  const decisions = [0, 1].map((place) => fleet.ask(place, client, 10));
  await fleet.pass(50);
  expect(admitted(decisions.flat())).toBe(5);
});

test.each<[string, Partial<Policy>]>([
  ["lowers the limit", { limit: 5 }],
  ["raises the cost", { cost: 6 }],
])("after a reload that %s, a refusal knows what other gateways have used", async (_, changed) => {
  const fleet = await SmallFleet.start([policyOf(10)]);
  fleet.ask(0, client, 5);
  await fleet.pass(10_000);
  fleet.ask(1, client, 5);
  await fleet.pass(10_000);
  fleet.reload([policyOf(10, changed)]);
  const refused = fleet.ask(0, client);
  await fleet.pass(50);
  const retryMs = (refused[0]?.resetMs ?? 0) - fleet.nowMs(0);
  expect(admitted(refused)).toBe(0);
  await fleet.pass(retryMs);
  const again = fleet.ask(0, client);
  await fleet.pass(50);
  expect(admitted(again)).toBe(1);
});

test("a client is told to wait for a policy whose limit was lowered, also when another one refuses it", async () => {
  const short = slidingPolicy({ name: "short", limit: 3, windowMs: 10_000 });
  const fleet = await SmallFleet.start([short, policyOf(10)]);
  for (let i = 0; i < 3; i += 1) {
    fleet.ask(0, client);
    await fleet.pass(50);
  }
  const changedMs = fleet.nowMs(0);
  fleet.reload([short, policyOf(2)]);
  const refused = fleet.ask(0, client);
  await fleet.pass(10);
  expect(refused[0]?.policy.name).toBe("per-ip");
  expect(refused[0]?.resetMs).toBeGreaterThan(changedMs + 599_000);
});
