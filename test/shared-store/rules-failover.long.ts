// Rules and forgiveness of three gateways while Sentinel promotes a replica, and while the primary of a cluster dies that has the
// log, or a client's counter: what was set holds before and after it, and who is forgiven gets the limit. Takes about 15 s.
import { describe, expect, test } from "vitest";
import { type Cleanup, cleanupOf } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import {
  type RedisServer,
  redisNeeded,
  skipRedis,
  startRedisCluster,
  startRedisWithSentinels,
} from "../support/redis-servers.ts";
import { startUpstream } from "../support/upstream.ts";
import {
  admittedOfLimit,
  allBlock,
  anyway,
  askAll,
  blockOf,
  limit,
  newClient,
  RulesStage,
  replicas,
  type StoreServers,
  setRule,
  writer,
} from "./rules-stage.ts";

const logKey = "headgate:1:{rules}:entries";
const share = Math.floor(limit / replicas);
const hostPort = ({ port }: RedisServer) => ({ host: "127.0.0.1", port });

interface Failing {
  readonly servers: StoreServers;
  /** Kills the primary that has this key, and resolves when another server has taken over. */
  failOver(key: string): Promise<void>;
}

async function sentinels(cleanup: Cleanup): Promise<Failing> {
  const store = cleanup(await startRedisWithSentinels());
  const [primary, replica] = store.servers;
  return {
    servers: {
      kind: "sentinels",
      user: { username: null, passwordFile: null },
      name: store.name,
      addresses: store.sentinels.map(hostPort),
    },
    async failOver() {
      await primary?.kill();
      await eventually("the replica is promoted", () => store.primaryPort() === replica?.port, 20_000);
    },
  };
}

async function cluster(cleanup: Cleanup): Promise<Failing> {
  const store = cleanup(await startRedisCluster());
  const dead = new Set<RedisServer>();
  const alive = () => store.servers.filter((server) => !dead.has(server));
  const isWhole = (server: RedisServer): boolean => {
    const state = server.cli("CLUSTER", "INFO");
    return state.includes("cluster_state:ok") && state.includes("cluster_slots_ok:16384");
  };
  return {
    servers: { kind: "cluster", addresses: store.servers.slice(0, 3).map(hostPort) },
    async failOver(key) {
      const owner = alive().find(
        (server) => server.cli("ROLE").startsWith("master") && server.cli("EXISTS", key) === "1",
      );
      if (owner === undefined) throw new Error(`no primary has ${key}`);
      await owner.kill();
      dead.add(owner);
      await eventually("another takes over", () => alive().every(isWhole), 30_000);
    },
  };
}

async function stageThree(cleanup: Cleanup, servers: StoreServers) {
  const upstream = cleanup(await startUpstream());
  const stage = new RulesStage(cleanup, servers, upstream.url);
  const all = [await stage.start(), await stage.start({ workers: 2 }), await stage.start()] as const;
  await stage.up(...all);
  return { stage, all };
}

async function shareRules(all: readonly TestGateway[]): Promise<string> {
  const [a, , c] = all as [TestGateway, TestGateway, TestGateway];
  const [set, removed] = [newClient(), newClient()];
  expect(await setRule(a, blockOf(set))).toMatchObject({ ok: true, isShared: true });
  await a.rules.put(blockOf(removed), writer, anyway);
  await allBlock(all, set);
  await allBlock(all, removed);
  expect(await c.rules.remove(`block-${removed}`, writer, anyway)).toMatchObject({ ok: true });
  await allBlock(all, removed, false);
  return set;
}

describe.skipIf(skipRedis)(`rules and forgiveness while the store fails over${redisNeeded}`, () => {
  test.concurrent.for([
    { what: "Sentinel promotes a replica", start: sentinels },
    { what: "a primary of a cluster dies", start: cluster },
  ])("$what", async ({ start }, context) => {
    const cleanup = cleanupOf(context);
    const { servers, failOver } = await start(cleanup);
    const { stage, all } = await stageThree(cleanup, servers);
    const before = await shareRules(all);
    const [early, late] = [newClient(), newClient()];
    expect(await askAll(all, early, limit)).toBe(limit);
    expect(await all[1].forgive({ kind: "client", value: early })).toMatchObject({ isShared: true });
    expect(await admittedOfLimit(all, early)).toBe(limit);
    expect(await askAll(all, late, limit)).toBe(limit);

    await failOver(logKey);
    await stage.up(...all);
    await allBlock(all, before);
    // Nothing that was admitted before the forgiveness is told again, and nothing after it is lost.
    expect(await askAll(all, early, limit)).toBeLessThanOrEqual(share * replicas);
    await shareRules(all);
    expect(await all[2].forgive({ kind: "client", value: late })).toMatchObject({ isShared: true });
    expect(await admittedOfLimit(all, late)).toBe(limit);
    for (const gateway of all)
      await eventually("all is told", async () => (await metric(gateway, "headgate_shared_rules_untold")) === 0);
  });
});
