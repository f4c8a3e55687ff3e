// What the simulation has found, each as a run that is as small as it can be.
import { expect, test } from "vitest";
import { slidingPolicy } from "../support/policy.ts";
import { drawPlan, type Plan } from "./plan.ts";
import { run } from "./run.ts";
import { clientPlan, gatewayPlan, smallPlan } from "./small-plan.ts";

const minute = { kind: "calendar", per: "minute", timezone: "UTC" } as const;

/** What is wrong in a run, for each of a few seeds. */
async function wrongIn(parts: Partial<Plan>): Promise<string[]> {
  const wrong: string[] = [];
  for (let seed = 0; seed < 5; seed += 1) wrong.push(...(await run(smallPlan({ ...parts, seed }))).violations);
  return wrong;
}

test("what a gateway has leased of a calendar's quota and not spent comes back", async () => {
  const policies = [{ ...slidingPolicy({ limit: 1000, windowMs: 1 }), rate: minute }];
  expect(await wrongIn({ policies, loadMs: 9000, clients: [clientPlan({ gapMs: 500, beginMs: 2000 })] })).toEqual([]);
});

test("a client that has stopped asking holds nothing", async () => {
  const policies = [slidingPolicy({ limit: 5000, windowMs: 10_000 })];
  expect(await wrongIn({ policies, loadMs: 3000 })).toEqual([]);
});

test("units that wait for a status are asked for again once they are given back", async () => {
  const policies = [slidingPolicy({ limit: 4, windowMs: 60_000, chargeStatuses: [401] })];
  // Five at once now and then; none of them is charged.
  const clients = [clientPlan({ gapMs: 10, lastsMs: 30, chargedShare: 0 })];
  const gateways = [gatewayPlan({}), gatewayPlan({})];
  const { requests, admitted, violations } = await run(smallPlan({ policies, gateways, clients, loadMs: 8000 }));
  expect(violations).toEqual([]);
  expect(admitted).toBeGreaterThan(0.75 * requests);
});

test("an answer that a pause has made too late refuses nobody", async () => {
  const failures = Array.from(
    { length: 60 },
    (_, i) => ({ kind: "pause", atMs: 1000 + i * 50, gateway: 0, forMs: 18 }) as const,
  );
  const clients = [clientPlan({ gapMs: 3 })];
  const policies = [slidingPolicy({ limit: 999, windowMs: 500 })];
  const { requests, admitted } = await run(smallPlan({ policies, clients, failures, loadMs: 5000 }));
  expect(admitted).toBe(requests);
});

test("units of one policy that run out while another one is asked are asked for again", async () => {
  const policies = [
    slidingPolicy({ name: "large", limit: 2000, cost: 10, windowMs: 2000 }),
    slidingPolicy({ name: "small", limit: 200, windowMs: 1000 }),
  ];
  const { requests, admitted, violations } = await run(smallPlan({ policies, clients: [clientPlan({ gapMs: 40 })] }));
  expect(violations).toEqual([]);
  expect(admitted).toBe(requests);
});

test("a request that the store has just refused does not ask again, and is not decided alone then", async () => {
  const policies = [slidingPolicy({ limit: 3, windowMs: 200 })];
  const delays = { leastMs: 1, mostMs: 4, lateShare: 0, lateMs: 0 };
  expect(await wrongIn({ policies, delays, gateways: [gatewayPlan({}), gatewayPlan({})] })).toEqual([]);
});

test("a client that waits for the next period of a calendar is admitted then", async () => {
  const policies = [{ ...slidingPolicy({ limit: 5, windowMs: 1 }), rate: minute }];
  const clients = [clientPlan({ kind: "waiter", gapMs: 10, beginMs: 55_000 })];
  const delays = { leastMs: 0.5, mostMs: 4, lateShare: 0, lateMs: 0 };
  expect(await wrongIn({ policies, clients, delays, loadMs: 63_000 })).toEqual([]);
});

test("what is admitted while a new key's first answer is overdue is told to the store", async () => {
  const policies = [slidingPolicy({ limit: 20, windowMs: 60_000 })];
  const clients = [clientPlan({ beginMs: 1000, gapMs: 5, gateway: 0 }), clientPlan({ beginMs: 2000, gateway: 1 })];
  const failures = [{ kind: "late", atMs: 990, forMs: 50, share: 1, byMs: 60 } as const];
  const gateways = [gatewayPlan({}), gatewayPlan({})];
  const { requests, admitted } = await run(smallPlan({ policies, clients, failures, gateways }));
  expect(requests).toBeGreaterThan(100);
  expect(admitted).toBe(20);
});

test("a thread that is asked for a key for the first time tells nothing that the store has granted to another one", async () => {
  // The clock of the first gateway is slow: it counts its own units for longer than the store does.
  const gateways = [
    gatewayPlan({ rate: 0.9971181989021366, skewMs: 37.5, threads: 2 }),
    gatewayPlan({ rate: 1.0046452920614974, skewMs: 23 }),
    gatewayPlan({ skewMs: 20.5, threads: 2 }),
  ];
  const clients = [clientPlan({ kind: "waiter", gapMs: 50 })];
  const delays = { leastMs: 1, mostMs: 4, lateShare: 0, lateMs: 0 };
  const policies = [slidingPolicy({ limit: 6, windowMs: 1000 })];
  const settings = { ...smallPlan({}).settings, waitMs: 100 };
  const wrong: string[] = [];
  for (let seed = 104_400; seed < 104_700; seed += 1) {
    wrong.push(
      ...(await run(smallPlan({ seed, settings, policies, gateways, clients, delays, loadMs: 1500 }))).violations,
    );
  }
  expect(wrong).toEqual([]);
});

test("a client is told to wait for a policy that counts some statuses too, when another one refuses it", async () => {
  const policies = [
    slidingPolicy({ name: "short", limit: 1, windowMs: 1000 }),
    slidingPolicy({ name: "failed", limit: 3, windowMs: 6000, chargeStatuses: [401] }),
  ];
  const clients = [clientPlan({ kind: "waiter", gapMs: 300 })];
  const gateways = [gatewayPlan({}), gatewayPlan({})];
  expect(await wrongIn({ policies, gateways, clients, loadMs: 12_000 })).toEqual([]);
});

test("a client that has used up two policies elsewhere is told to wait for the later one", async () => {
  const policies = [
    slidingPolicy({ name: "large", limit: 1000, cost: 10, windowMs: 3000 }),
    slidingPolicy({ name: "small", limit: 100, windowMs: 6000 }),
  ];
  const clients = [clientPlan({ kind: "waiter", gapMs: 10 })];
  const gateways = [gatewayPlan({}), gatewayPlan({})];
  const wrong: string[] = [];
  for (let seed = 0; seed < 10; seed += 1) {
    wrong.push(...(await run(smallPlan({ seed, policies, gateways, clients, loadMs: 5000 }))).violations);
  }
  expect(wrong).toEqual([]);
});

test("what was told after a step of the store's clock may expire early by the next one", async () => {
  const policies = [slidingPolicy({ limit: 20, windowMs: 8000 })];
  const settings = { ...smallPlan({}).settings, onFailure: "closed" } as const;
  const gateways = [gatewayPlan({}), gatewayPlan({})];
  const clients = [clientPlan({ gapMs: 150 })];
  const failures = [
    { kind: "step", atMs: 1400, shard: 0, byMs: 9000 },
    { kind: "step", atMs: 2200, shard: 0, byMs: 1500 },
  ] as const;
  expect(await wrongIn({ policies, settings, gateways, clients, failures, loadMs: 14_000 })).toEqual([]);
});

test("a rule that a failover has lost is told again, also if it is newer than all that the store has left", async () => {
  const failures = [{ kind: "failover", atMs: 1000, shard: 0, lagMs: 500, forMs: 300 } as const];
  const people = [{ atMs: 1100, gateway: 1, does: "set", rule: 0, lastsMs: 600_000 } as const];
  const gateways = [gatewayPlan({}), gatewayPlan({}), gatewayPlan({})];
  expect(await wrongIn({ gateways, failures, people })).toEqual([]);
});

test("of two rules that were set in the same instant while the store was away, all hold the same", async () => {
  const failures = [{ kind: "restart", atMs: 800, shard: 0, keepsData: true, forMs: 500 } as const];
  const people = [0, 1].map((gateway) => ({ atMs: 900, gateway, does: "set", rule: 0, lastsMs: 600_000 }) as const);
  expect(await wrongIn({ gateways: [gatewayPlan({}), gatewayPlan({}), gatewayPlan({})], failures, people })).toEqual(
    [],
  );
});

test("what a store was told again and has lost again is told once more", async () => {
  const failures = [
    { kind: "flush", atMs: 1000, shard: 0 },
    { kind: "flush", atMs: 1700, shard: 0 },
  ] as const;
  const people = [{ atMs: 900, gateway: 1, does: "set", rule: 0, lastsMs: 600_000 } as const];
  const gateways = [gatewayPlan({}), gatewayPlan({}), gatewayPlan({})];
  expect(await wrongIn({ gateways, failures, people })).toEqual([]);
});

test("after a failover a store may take what only a fast clock has let go for what it is told", async () => {
  expect((await run(drawPlan(9804))).violations).toEqual([]);
});

test("what a request keeps while it asks again for another key makes the next refusal longer", async () => {
  expect((await run(drawPlan(35_750))).violations).toEqual([]);
});

test("a shadow policy that asks again has its own time to wait", async () => {
  expect((await run(drawPlan(102_572))).violations).toEqual([]);
});

test.each([
  ["held units are not reserved for a wait that their lease may not outlast", 206_045],
  ["held units that the store cannot replace are spent", 371_291],
  ["a request that the table refuses asks the store for how long, and only once", 201_539],
])("%s", async (_, seed) => {
  expect((await run(drawPlan(seed))).violations).toEqual([]);
});
