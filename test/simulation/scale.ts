// What sharing costs the store, on virtual time: calls, bytes, units that are held and not spent, and how much of the limit
// is used, by the length of a lease and the number of threads that share one client's requests. Run by
// npm run simulate:shared -- --scale
import type { Policy } from "../../src/core/policy.ts";
import { slidingPolicy } from "../support/policy.ts";
import { startClients } from "./clients.ts";
import { type ClientPlan, type GatewayPlan, type Plan, warmUpMs } from "./plan.ts";
import { World } from "./world.ts";

interface Case {
  readonly gateways: number;
  readonly threadsOfEach: number;
  readonly leaseMs: number;
  readonly limit: number;
}

const windowMs = 60_000;
/** The second window is measured: in the first one, a client has not reached its limit. */
const loadMs = 2 * windowMs;
/** Requests of the client, as a part of what its limit admits. */
const demand = 1.25;

export async function printScale(print: (line: string) => void): Promise<void> {
  print(
    "| gateways × threads | limit in 60 s | lease | calls/s | calls an admission | bytes an admission | held, not spent | admitted |",
  );
  print("|---|---|---|---|---|---|---|---|");
  for (const [gateways, threadsOfEach] of [
    [4, 1],
    [32, 1],
    [32, 32],
  ] as const) {
    for (const limit of [100, 1000, 10_000]) {
      // Below 1,000 nothing is leased ahead.
      for (const leaseMs of limit < 1000 ? [200] : [50, 200, 1000]) {
        print(await row({ gateways, threadsOfEach, leaseMs, limit }));
      }
    }
  }
}

async function row(given: Case): Promise<string> {
  const { gateways, threadsOfEach, leaseMs, limit } = given;
  const world = new World(planOf(given));
  startClients(world);
  await world.time.runUntil(warmUpMs + windowMs);
  const [shard] = world.shards;
  if (shard === undefined) throw new Error("there is no shard");
  const before = { calls: shard.counterCalls, bytes: shard.counterBytes, admitted: world.admitted };
  let held = 0;
  const samples = 60;
  for (let i = 1; i <= samples; i += 1) {
    await world.time.runUntil(warmUpMs + windowMs + (i * windowMs) / samples);
    for (const { threads } of world.gateways) for (const { shared } of threads) held += shared.figures().heldUnits;
  }
  const calls = shard.counterCalls - before.calls;
  const bytes = shard.counterBytes - before.bytes;
  const admitted = world.admitted - before.admitted;
  for (const gateway of world.starts) gateway.end();
  return [
    "",
    `${gateways} × ${threadsOfEach}`,
    limit.toLocaleString("en"),
    limit < 1000 ? "none" : `${leaseMs} ms`,
    (calls / (windowMs / 1000)).toFixed(1),
    (calls / admitted).toFixed(2),
    Math.round(bytes / admitted).toString(),
    (held / samples).toFixed(1),
    `${((100 * admitted) / limit).toFixed(1)} %`,
    "",
  ]
    .join(" | ")
    .trim();
}

function planOf({ gateways, threadsOfEach, leaseMs, limit }: Case): Plan {
  const policy: Policy = slidingPolicy({ name: "default", limit, windowMs });
  const gateway: GatewayPlan = { rate: 1, skewMs: 0, threads: threadsOfEach };
  const client: ClientPlan = {
    ...{ kind: "edge", address: 0, beginMs: 0, gateway: -1, lastsMs: 1, chargedShare: 0 },
    gapMs: windowMs / limit / demand,
  };
  return {
    seed: 1,
    loadMs,
    settings: {
      ...{ prefix: "headgate:", waitMs: 10, onFailure: "local", replicas: "auto", maxKeys: 100_000 },
      lease: { durationMs: leaseMs, most: 1000 },
    },
    policies: [policy],
    gateways: Array.from({ length: gateways }, () => gateway),
    shards: [{ rate: 1, skewMs: 0 }],
    delays: { leastMs: 0.1, mostMs: 0.5, lateShare: 0, lateMs: 0 },
    clients: [client],
    failures: [],
    people: [],
  };
}
