// A run with up to 32 policies, over one server, whose clients ask in bursts. Its gateways stand still now and then, and
// connections break.
import type { Policy } from "../../src/core/policy.ts";
import { slidingPolicy } from "../support/policy.ts";
import { Chance } from "./chance.ts";
import type { ClientPlan, Failure, Plan } from "./plan.ts";
import { checkClaims } from "./quiet.ts";
import { type Log, type RunResult, runTo } from "./run.ts";
import { gatewayPlan, smallPlan } from "./small-plan.ts";

const keys: readonly Policy["key"][] = [[{ kind: "client" }], [{ kind: "client" }], []];

export function drawCrowd(seed: number): Plan {
  const chance = new Chance(seed, 4);
  // Limits that are reached, or none that is.
  const isRoomy = chance.happens(0.5);
  const policies = Array.from({ length: chance.whole(1, 32) }, (_, i) => drawPolicy(chance, i, isRoomy));
  const loadMs = isRoomy ? 40 : chance.one([100, 200, 1500]);
  const gateways = Array.from({ length: chance.one([1, 1, 1, 2]) }, () =>
    gatewayPlan({ threads: chance.one([1, 1, 1, 2]) }),
  );
  const clients = Array.from({ length: chance.whole(1, isRoomy ? 8 : 4) }, (_, i): ClientPlan => {
    const kind = chance.one(["burst", "burst", "greedy"] as const);
    // Some hundred requests.
    const gapMs = (loadMs * chance.between(0.5, 2)) / (kind === "burst" ? 4 : 30);
    const beginMs = chance.between(0, loadMs / 2);
    const share = chance.one([0, 0.5, 1]);
    const gateway = chance.whole(-1, gateways.length - 1);
    return { kind, address: chance.whole(0, i), beginMs, gapMs, gateway, lastsMs: 10, chargedShare: share };
  });
  const failures = chance.happens(0.5)
    ? []
    : Array.from({ length: 3 }, () => drawFailure(chance, gateways.length, loadMs));
  const mostMs = chance.one([0.5, 2]);
  const settings = { ...smallPlan({}).settings, waitMs: chance.one([10, 50]) };
  const delays = { leastMs: mostMs / 4, mostMs, lateShare: 0, lateMs: 0 };
  return smallPlan({ seed, policies, loadMs, gateways, clients, failures, delays, settings });
}

function drawPolicy(chance: Chance, index: number, isRoomy: boolean): Policy {
  const windowMs = chance.one([1000, 4000, 60_000, 3_600_000]);
  const limit = isRoomy ? chance.one([900, 999, 5000]) : chance.one([1, 10, 50, 200, 1000]) * chance.whole(1, 3);
  const cost = chance.happens(0.1) ? Math.min(limit, 7) : 1;
  const mode = index > 0 && chance.happens(0.1) ? "shadow" : "enforce";
  const base = { ...slidingPolicy({ name: `p${index}`, limit, windowMs }), cost, mode, key: chance.one(keys) } as const;
  switch (chance.one(["window", "window", "window", "window", "calendar", "status", "slots"])) {
    case "calendar":
      return { ...base, rate: { kind: "calendar", per: "minute", timezone: "UTC" } };
    case "status":
      return { ...base, chargeStatuses: [401] };
    case "slots":
      return { ...base, rate: { kind: "concurrency" } };
    default:
      return base;
  }
}

function drawFailure(chance: Chance, gateways: number, loadMs: number): Failure {
  const atMs = chance.between(0, loadMs);
  const gateway = chance.whole(0, gateways - 1);
  const kind = chance.one(["pause", "pause", "cut", "part"] as const);
  if (kind === "cut") return { kind, atMs, gateway, shard: 0 };
  const forMs = chance.one([5, 60, 150]);
  return kind === "pause" ? { kind, atMs, gateway, forMs } : { kind, atMs, gateway, shard: 0, forMs };
}

/** Runs it, without a look at what is left when nobody asks any more. */
export function runCrowd(plan: Plan, log: Log = null): Promise<RunResult> {
  return runTo(plan, log, async (world) => {
    await world.time.runUntil(world.time.nowMs + 200);
    // While nothing fails, two answers are enough, and there is time for many.
    const alone = world.starts.flatMap(({ threads }) => threads.map(({ shared }) => shared.counts.alone.local));
    if (plan.failures.length === 0 && plan.settings.waitMs >= 50 && alone.some((count) => count > 0))
      world.judge.violate(`${alone.join(" and ")} requests were decided without the store`);
    checkClaims(world);
  });
}
