// A key with thousands of requests at once, whose units are given back when they end.
import { expect, test } from "vitest";
import type { Decision } from "../../../src/core/policy.ts";
import { mostItems, mostReports } from "../../../src/limits/store/script-call.ts";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { cpuMsOf } from "../../support/cpu-time.ts";
import { slidingPolicy } from "../../support/policy.ts";

const client = { client: "192.0.2.1" };
const slots = { ...slidingPolicy({ limit: 100_000, windowMs: 1 }), rate: { kind: "concurrency" } } as const;
const charged = slidingPolicy({ limit: 100_000, windowMs: 60_000, chargeStatuses: [401] });

async function askedAtOnce(policy: typeof slots | typeof charged, count: number) {
  const fleet = await SmallFleet.start([policy]);
  const decisions: readonly Decision[] = fleet.ask(0, client, count);
  await fleet.pass(9);
  expect(admitted(decisions)).toBe(count);
  return { fleet, decisions };
}

test.each([
  ["slots", slots],
  ["units that the status decides about", charged],
])("%s are given back in as few calls as they can be reported in", async (_, policy) => {
  const count = 2 * mostItems * mostReports;
  const { fleet, decisions } = await askedAtOnce(policy, count);
  const before = fleet.figures(0).calls.answered;
  for (const { held } of decisions) held?.end(200);
  await fleet.pass(9);
  expect(fleet.figures(0).calls.answered - before).toBe(2);
  expect(fleet.figures(0).units.returned).toBe(count);
});

test("giving back costs the same for each, however many there are", async () => {
  const costOf = async (count: number): Promise<number> => {
    const { decisions } = await askedAtOnce(charged, count);
    return cpuMsOf(() => decisions.map(({ held }) => held?.end(200))) / count;
  };
  // The first time is slower than any other.
  await costOf(2000);
  const few = await costOf(2000);
  expect(await costOf(16_000)).toBeLessThan(4 * few);
});
