// One limit over four gateways, while Sentinel promotes a replica, a cluster's primary dies, and slots of it move. What a
// primary has not passed on to its replica is lost, and gateways tell what they have admitted. Takes about 45 s.
import { execFile } from "node:child_process";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import {
  type RedisCluster,
  redisNeeded,
  skipRedis,
  startRedisCluster,
  startRedisWithSentinels,
} from "../support/redis-servers.ts";
import { type Fleet, limits, startFleet } from "./fleet.ts";
import { type LoadedStage, type LoadResult, underLoad } from "./load.ts";
import { startRecordingUpstream } from "./recording-upstream.ts";
import { reportLoad } from "./report.ts";
import { clientsOf, shared, sharing } from "./stage.ts";

const cleanup = useCleanup();
const gateways = 4;
const forgotten = (limit: number): number => limit + gateways * Math.max(1, Math.floor(limit / gateways));

describe.skipIf(skipRedis)(`one limit while the store fails over${redisNeeded}`, () => {
  test("Sentinel promotes the replica of a primary that was killed", async () => {
    const store = await startRedisWithSentinels();
    cleanup(() => store.stop());
    const addresses = store.sentinels.map(({ port }) => `127.0.0.1:${port}`);
    const { name } = store;
    const fleet = await start([`counters.redis.sentinels=${JSON.stringify({ name, addresses })}`]);
    const [primary, replica] = store.servers;
    const result = await underLoad(fleet, async () => {
      await primary?.kill();
      await eventually("the replica is promoted", () => store.primaryPort() === replica?.port, 20_000);
    });
    reportLoad("Sentinel promotes a replica", result);
    expectBounds(result);
    await shared(fleet.gateways, gateways);
    await sharesOneLimit(fleet);
  });

  test("a cluster's primary dies, and its replica takes over; slots move to another primary", async () => {
    const store = await startRedisCluster();
    cleanup(() => store.stop());
    const addresses = store.servers.slice(0, 3).map(({ port }) => `127.0.0.1:${port}`);
    const fleet = await start([`counters.redis.cluster=${JSON.stringify(addresses)}`]);
    let slots = 0;
    const moved = await underLoad(fleet, async () => {
      slots = await moveSlots(store);
    });
    expect(slots).toBeGreaterThan(3);
    reportLoad("slots of a cluster move", moved);
    expectBounds(moved);
    const [primary] = store.servers;
    const lost = await underLoad(fleet, async () => {
      await primary?.kill();
      await eventually("another takes over", () => isWhole(store), 20_000);
    });
    reportLoad("a primary of a cluster dies", lost);
    expectBounds(lost);
    await shared(fleet.gateways, gateways, 30_000);
    await sharesOneLimit(fleet);
  });
});

async function start(settings: readonly string[]): Promise<Fleet & LoadedStage> {
  const upstream = await startRecordingUpstream(cleanup);
  const fleet = await startFleet(cleanup, upstream.url, gateways, [...sharing, ...settings]);
  await shared(fleet.gateways, gateways);
  return { ...fleet, fleet, upstream, client: clientsOf(cleanup, fleet) };
}

function expectBounds({ small, edge, large, before, after }: LoadResult): void {
  expect(small.worst).toBeLessThanOrEqual(forgotten(limits.small));
  expect(edge.worst).toBeLessThanOrEqual(forgotten(limits.small));
  expect(large.worst).toBeLessThanOrEqual(forgotten(limits.large));
  expect(Object.keys(after.statuses)).toEqual(["200", "429"]);
  expect(before.incomplete + after.incomplete).toBe(0);
}

/** After it, all is as before. */
async function sharesOneLimit({ client }: LoadedStage): Promise<void> {
  const asked = await client("/v1/small").burst(limits.small + 20);
  expect(asked.filter(({ status }) => status === 200)).toHaveLength(limits.small);
}

/** The slots of all counters go to the next primary, each while requests of its keys arrive. */
async function moveSlots({ servers }: RedisCluster): Promise<number> {
  const ports = servers.slice(0, 3).map(({ port }) => port);
  const ids = await Promise.all(ports.map((port) => cli(port, "CLUSTER", "MYID")));
  let moved = 0;
  for (const [i, from] of ports.entries()) {
    const to = ports[(i + 1) % 3] ?? 0;
    const keys = (await cli(from, "KEYS", "headgate:1:{a*")).split("\n");
    const slots = new Set(await Promise.all(keys.map((key) => cli(from, "CLUSTER", "KEYSLOT", key))));
    for (const slot of slots) {
      await cli(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[i] ?? "");
      await cli(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[(i + 1) % 3] ?? "");
      await setTimeout(50);
      const inSlot = (await cli(from, "CLUSTER", "GETKEYSINSLOT", slot, "100")).split("\n").filter((key) => key !== "");
      if (inSlot.length > 0) await cli(from, "MIGRATE", "127.0.0.1", `${to}`, "", "0", "5000", "KEYS", ...inSlot);
      await setTimeout(50);
      for (const port of [to, from, ...ports]) {
        await cli(port, "CLUSTER", "SETSLOT", slot, "NODE", ids[(i + 1) % 3] ?? "");
      }
      moved += 1;
    }
  }
  return moved;
}

/** Without blocking the clients, as `RedisServer.cli` does. */
async function cli(port: number, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("redis-cli", ["-p", `${port}`, ...args]);
  if (/^(?:ERR|MOVED|CLUSTERDOWN|IOERR)/.test(stdout)) throw new Error(`${args.join(" ")}: ${stdout}`);
  return stdout.trimEnd();
}

function isWhole({ servers }: RedisCluster): boolean {
  const state = servers[1]?.cli("CLUSTER", "INFO") ?? "";
  return state.includes("cluster_state:ok") && state.includes("cluster_slots_ok:16384");
}
