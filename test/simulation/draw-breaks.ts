// A run whose units are given back or kept when exchanges end, in windows that outlast it, while connections break just then:
// what the store counts when everything has been told is exactly what was kept.
import type { Policy } from "../../src/core/policy.ts";
import { holdsUntilEnd } from "../../src/limits/policies.ts";
import { slidingPolicy } from "../support/policy.ts";
import { Chance } from "./chance.ts";
import type { ClientPlan, Failure, GatewayPlan, Plan } from "./plan.ts";
import { checkClaims } from "./quiet.ts";
import { type Log, type RunResult, runTo } from "./run.ts";
import { checkSettled } from "./settled.ts";
import { gatewayPlan, smallPlan } from "./small-plan.ts";

type Kind = "cut" | "part" | "late" | "pause" | "crash" | "flush" | "restart";

/** Clients begin behind the border of a minute, which is soon after the begin of a run. */
const [beginMs, loadMs] = [3_000, 4_000];

export function drawBreaks(seed: number): Plan {
  const chance = new Chance(seed, 5);
  const policies = Array.from({ length: chance.one([1, 1, 2]) }, (_, i) => drawPolicy(chance, i));
  const gateways = Array.from({ length: chance.one([1, 2, 2, 3]) }, () =>
    gatewayPlan({ threads: chance.one([1, 1, 2]) }),
  );
  const mostMs = chance.one([0.5, 2, 20]);
  const settings = { ...smallPlan({}).settings, waitMs: mostMs > 2 ? 100 : chance.one([10, 50]) };
  return smallPlan({
    ...{ seed, policies, gateways, settings, loadMs: beginMs + loadMs },
    delays: { leastMs: mostMs / 4, mostMs, lateShare: 0, lateMs: 0 },
    clients: Array.from({ length: chance.whole(1, 3) }, (_, i) => drawClient(chance, i)),
    failures: drawFailures(chance, gateways, policies),
  });
}

function drawPolicy(chance: Chance, index: number): Policy {
  const [limit, cost] = chance.one([
    [1, 1],
    [8, 1],
    [20, 3],
    [150, 1],
    [150, 1],
  ] as const);
  const base = { ...slidingPolicy({ name: `p${index}`, limit, windowMs: 40_000 }), cost };
  switch (chance.one(["status", "status", "calendar", "calendar", "slots", "window"])) {
    case "status":
      return { ...base, chargeStatuses: [401] };
    case "calendar":
      return { ...base, chargeStatuses: [401], rate: { kind: "calendar", per: "minute", timezone: "UTC" } };
    case "slots":
      return { ...base, rate: { kind: "concurrency" } };
    default:
      return base;
  }
}

function drawClient(chance: Chance, address: number): ClientPlan {
  const kind = chance.one(["burst", "burst", "greedy"] as const);
  return {
    ...{ kind, address, gateway: -1, chargedShare: chance.one([0, 0.5, 1]) },
    beginMs: beginMs + chance.between(0, 1_000),
    gapMs: kind === "burst" ? chance.one([150, 1_000, 3_000]) : chance.between(20, 400),
    lastsMs: chance.one([5, 300, 2_000]),
  };
}

function drawFailures(
  chance: Chance,
  gateways: readonly GatewayPlan[],
  policies: readonly Policy[],
): readonly Failure[] {
  const areTold = gateways.every(({ threads }) => threads === 1) || !policies.some(holdsUntilEnd);
  const kinds = chance.one<readonly Kind[]>([
    ["cut"],
    ["cut", "part", "late", "pause"],
    ["cut", "restart"],
    ["restart"],
    ["crash", "cut", "part"],
    // What a thread tells may count as held by another one, which reports it after that: see settled.ts.
    areTold ? ["flush", "restart"] : ["late"],
  ]);
  const keepsData = !kinds.includes("flush") || chance.happens(0.5);
  let [atMs, forMs] = [0, 0];
  return Array.from({ length: chance.whole(1, 3) }, (): Failure => {
    const kind = chance.one(kinds);
    // Often another one follows while gateways come back from the last.
    const isSoon = atMs > 0 && chance.happens(0.6);
    atMs = isSoon ? atMs + forMs + chance.skewed(5, 300) : beginMs + chance.between(0, loadMs);
    forMs = chance.one([5, 50, 500, 1_500]);
    const gateway = chance.whole(kind === "cut" || kind === "part" ? -1 : 0, gateways.length - 1);
    switch (kind) {
      case "flush":
        return { kind, atMs, shard: 0 };
      case "restart":
        return { kind, atMs, shard: 0, keepsData, forMs };
      case "late":
        return { kind, atMs, forMs, share: chance.one([0.3, 1]), byMs: chance.one([15, 300]) };
      default:
        return { kind, atMs, gateway, shard: 0, forMs };
    }
  });
}

export function runBreaks(plan: Plan, log: Log = null): Promise<RunResult> {
  return runTo(plan, log, async (world) => {
    await checkSettled(world);
    checkClaims(world);
  });
}
