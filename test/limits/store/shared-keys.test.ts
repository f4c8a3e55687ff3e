// A key that several clients share: none of them decides what the others get of it.
import { describe, expect, test } from "vitest";
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

const byRoute = slidingPolicy({ name: "all", limit: 500, windowMs: 60_000, key: [{ kind: "route" }] });

describe("a burst of a client that its own policy refuses", () => {
  test.each([
    ["a window", slidingPolicy({ name: "own", limit: 10, windowMs: 60_000 })],
    ["a window, charged by status", slidingPolicy({ name: "own", limit: 10, windowMs: 60_000, chargeStatuses: [200] })],
    [
      "requests at once",
      { ...slidingPolicy({ name: "own", limit: 10, windowMs: 1 }), rate: { kind: "concurrency" } } as const,
    ],
  ])("takes no units of a policy that all share: %s", async (_, own) => {
    const fleet = await SmallFleet.start([byRoute, own]);
    const burst = [fleet.ask(0, evil, 300)];
    await fleet.pass(0.6);
    burst.push(fleet.ask(0, evil, 300));
    await fleet.pass(2);
    const others = Array.from({ length: 5 }, (__, i) => fleet.ask(1, { client: `198.51.100.${i}` }));
    await fleet.pass(30);
    expect(burst.map(({ length }) => length)).toEqual([300, 300]);
    expect(admitted(burst.flat())).toBe(10);
    expect(admitted(others.flat())).toBe(5);
  });
});

test("a refusal tells the wait of a policy that was not asked then, if the store has said that it is longer", async () => {
  const fleet = await SmallFleet.start([
    slidingPolicy({ name: "long", limit: 5, windowMs: 10_000 }),
    slidingPolicy({ name: "short", limit: 2, windowMs: 2_000 }),
  ]);
  const elsewhere = [fleet.ask(1, good)];
  await fleet.pass(2_200);
  elsewhere.push(fleet.ask(1, good, 2));
  await fleet.pass(2_200);
  const here = fleet.ask(0, good, 2);
  await fleet.pass(300);
  expect(admitted([...elsewhere.flat(), ...here])).toBe(5);
  // The table of this gateway has two of both; that the long one is used up, the store has said with its last unit.
  const refused = fleet.ask(0, good);
  expect(refused).toMatchObject([{ outcome: "throttled", policy: { name: "long" } }]);
  expect(fleet.outcomes(0, "long")).toMatchObject({ throttled: 1, observed: 0 });
});

test("requests that wait for others are admitted if those leave room", async () => {
  const fleet = await SmallFleet.start([
    slidingPolicy({ name: "route", limit: 1, windowMs: 60_000, key: [{ kind: "route" }, { kind: "client" }] }),
    slidingPolicy({ name: "own", limit: 4, windowMs: 60_000 }),
  ]);
  const [used] = [fleet.ask(1, { ...good, route: "/v1/" })];
  await fleet.pass(30);
  const refused = fleet.ask(0, { ...good, route: "/v1/" }, 4);
  const other = fleet.ask(0, { ...good, route: "/v2/" });
  await fleet.pass(30);
  expect([used, refused, other].map(admitted)).toEqual([1, 0, 1]);
});

test("units of requests that another policy refuses are not missing at other gateways, not even for a moment", async () => {
  const own = { ...slidingPolicy({ name: "own", limit: 20, windowMs: 1 }), rate: { kind: "concurrency" } } as const;
  const fleet = await SmallFleet.start([slidingPolicy({ ...byRoute, limit: 100, windowMs: 60_000 }), own]);
  const [held, used] = [fleet.ask(1, evil, 20), fleet.ask(1, { client: "203.0.113.1" }, 20)];
  await fleet.pass(30);
  // Its slots are all in use at the other gateway.
  const burst = fleet.ask(0, evil, 100);
  const more = ["203.0.113.2", "203.0.113.3"].map((client) => fleet.ask(0, { client }, 20));
  await fleet.pass(1);
  const last = fleet.ask(1, good, 20);
  await fleet.pass(30);
  expect([held, used, more.flat(), burst, last].map(admitted)).toEqual([20, 20, 40, 0, 20]);
});

test("no request waits for a shadow policy, which counts what the store says all the same", async () => {
  const shadow = slidingPolicy({ name: "shadow", limit: 3, windowMs: 60_000, mode: "shadow" });
  const fleet = await SmallFleet.start([shadow]);
  const decided = [fleet.ask(0, good, 2), fleet.ask(1, good, 2)];
  expect(decided.map(({ length }) => length)).toEqual([2, 2]);
  await fleet.pass(30);
  expect(fleet.ask(1, good)).toHaveLength(1);
  await fleet.pass(30);
  const counted = [0, 1].map((place) => fleet.outcomes(place, "shadow"));
  expect(counted.reduce((sum, each) => sum + (each?.admitted ?? 0), 0)).toBe(3);
  expect(counted.reduce((sum, each) => sum + (each?.would_throttle ?? 0), 0)).toBe(2);
});

test("a refusal is not by a policy whose last unit another request has found, and may leave", async () => {
  const own = slidingPolicy({ name: "own", limit: 1, windowMs: 10_000 });
  const fleet = await SmallFleet.start([own]);
  const used = fleet.ask(1, evil);
  await fleet.pass(30);
  fleet.reload([own, { ...slidingPolicy({ name: "all", limit: 2, windowMs: 3_600_000 }), key: [] }]);
  const [asked, vain] = [fleet.ask(0, good, 2), fleet.ask(0, evil)];
  await fleet.pass(30);
  expect([used, asked, vain].map(admitted)).toEqual([1, 1, 0]);
  expect(asked[1]).toMatchObject({ outcome: "throttled", policy: { name: "own" } });
});
