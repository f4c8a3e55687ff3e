// Calendar quotas that gateways share, while somebody sets the clock of the store.
import { expect, test } from "vitest";
import { admitted, SmallFleet } from "../../simulation/small-fleet.ts";
import { gatewayPlan } from "../../simulation/small-plan.ts";
import { slidingPolicy } from "../../support/policy.ts";

const limit = 5;
const rate = { kind: "calendar", per: "minute", timezone: "UTC" } as const;
const minute = 60_000;

/** Two gateways that share a quota, of which a client has used all with one of them, early in a minute. */
async function exhausted() {
  const fleet = await SmallFleet.start([{ ...slidingPolicy({ limit, windowMs: 1 }), rate }]);
  await fleet.pass(5_000);
  const ask = async (place: number) => {
    const decisions = fleet.ask(place, {}, 2 * limit);
    await fleet.pass(50);
    return decisions;
  };
  expect(admitted(await ask(0))).toBe(limit);
  expect(admitted(await ask(1))).toBe(0);
  /** The gateways see the clock with the next heartbeat. After a step forward, they tell the store what they know. */
  const step = async (ms: number) => {
    fleet.stepStore(ms);
    await fleet.pass(8_000);
  };
  return { fleet, ask, step };
}

test.each([1, 2, 3, 1_000])(
  "a store's clock that goes back by %d minutes, and is right again, refills nothing",
  async (minutes) => {
    const { ask, step } = await exhausted();
    for (let i = 0; i < 2; i += 1) {
      await step(-minutes * minute);
      expect([admitted(await ask(0)), admitted(await ask(1))]).toEqual([0, 0]);
      await step(minutes * minute);
      expect([admitted(await ask(0)), admitted(await ask(1))]).toEqual([0, 0]);
    }
  },
);

test("while a store's clock is behind, the next period begins when a refusal has said, and once for all gateways", async () => {
  const { fleet, ask, step } = await exhausted();
  await step(-1_000 * minute);
  const [refused] = await ask(0);
  const untilMs = (refused?.resetMs ?? 0) - fleet.nowMs(0);
  expect(untilMs).toBeGreaterThan(minute);
  expect(untilMs).toBeLessThanOrEqual(2 * minute);
  await fleet.pass(untilMs);
  expect(admitted(await ask(0)) + admitted(await ask(1))).toBe(limit);
  await step(1_000 * minute);
  expect(admitted(await ask(0)) + admitted(await ask(1))).toBe(0);
});

test.each([-1_000, -5, 5, 1_000])(
  "a gateway whose own clock is %d minutes off counts with the others, after the store was away at its start too",
  async (minutes) => {
    const gateways = [gatewayPlan({}), gatewayPlan({ skewMs: minutes * minute })];
    const fleet = await SmallFleet.start([{ ...slidingPolicy({ limit, windowMs: 1 }), rate }], { gateways });
    fleet.restart(1);
    fleet.part(1, 3_000);
    await fleet.pass(1_500);
    expect(admitted(fleet.ask(1, {}))).toBe(1);
    await fleet.pass(1_000);
    expect(fleet.figures(1).state).toBe("away");
    await fleet.pass(3 * minute);
    for (let i = 0; i < 6; i += 1) {
      const decisions = [1, 0, 1].map((place) => fleet.ask(place, {}, limit));
      await fleet.pass(minute);
      expect(admitted(decisions.flat())).toBe(limit);
    }
  },
);

test("a gateway whose own clock is ahead counts with the others after another server has taken the store's place", async () => {
  const gateways = [gatewayPlan({}), gatewayPlan({ skewMs: 5 * minute })];
  const fleet = await SmallFleet.start([{ ...slidingPolicy({ limit, windowMs: 1 }), rate }], { gateways });
  await fleet.pass(5_000);
  fleet.replaceStore();
  // As long as it has not answered, nobody knows its clock.
  for (let i = 0; i < 200; i += 1) {
    fleet.ask(1, {});
    await fleet.pass(10);
  }
  await fleet.pass(3 * minute);
  for (let i = 0; i < 6; i += 1) {
    const decisions = [1, 0, 1].map((place) => fleet.ask(place, {}, limit));
    await fleet.pass(minute);
    expect(admitted(decisions.flat())).toBe(limit);
  }
});
