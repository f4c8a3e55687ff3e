// A gateway that shares its counters and keeps a snapshot of its own: a restart must not tell the store again what it
// knows already.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Settings } from "../../src/core/settings.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

describe.skipIf(skipRedis)(`a restart with a snapshot and a store${redisNeeded}`, () => {
  test("counts what was spent once, also after the store was away", async () => {
    const redis = cleanup(await startRedis());
    const path = join(scratchFolder(cleanup), "counters");
    const before = await start(redis, path);
    expect([await before.ask(), await before.ask(), await before.ask()]).toEqual([9, 8, 7]);
    await before.close();
    const after = await start(redis, path);
    expect(await after.ask()).toBe(6);
    redis.cli("CLIENT", "KILL", "TYPE", "normal");
    await eventually("the store was away", () => after.lines().includes("store away"));
    await after.isUp();
    expect(await after.ask()).toBe(5);
  });

  test("tells a store that has forgotten what the snapshot knows", async () => {
    const redis = cleanup(await startRedis());
    const path = join(scratchFolder(cleanup), "counters");
    const before = await start(redis, path);
    expect([await before.ask(), await before.ask(), await before.ask()]).toEqual([9, 8, 7]);
    await before.close();
    redis.cli("FLUSHALL");
    const after = await start(redis, path);
    expect(await after.ask()).toBe(6);
  });
});

async function start({ port }: RedisServer, path: string) {
  const upstream = cleanup(await startUpstream());
  const servers = { kind: "one" as const, address: { host: "127.0.0.1", port } };
  const counters: Settings["counters"] = {
    memoryBytes: 2 ** 20,
    snapshot: { path, everyMs: 3_600_000 },
    redis: {
      connection: { servers, database: 0, username: null, passwordFile: null, tls: null },
      store: {
        ...{ prefix: "headgate:", waitMs: 1_000, lease: { durationMs: 1_000, most: 1_000 } },
        ...{ onFailure: "local", replicas: "auto", maxKeys: 1_000 },
      },
    },
  };
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: {
      policies: [slidingPolicy({ limit: 10, windowMs: 3_600_000 })],
      ...{ counters, drain: { timeoutMs: 0 }, fields: ["standard"] },
    },
  });
  let isClosed = false;
  const close = async (): Promise<void> => {
    if (!isClosed) await gateway.close();
    isClosed = true;
  };
  cleanup(close);
  const lines = () => gateway.logLines.map(({ msg }) => msg);
  const isUp = () =>
    eventually("the store is up", async () => (await metric(gateway, 'headgate_store_state{state="up"}')) === 1);
  await isUp();
  /** Returns what is left. */
  const ask = async (): Promise<number> => {
    const response = await fetch(`${gateway.url}/v1/x`, { headers: { authorization: "Bearer x" } });
    await response.arrayBuffer();
    return Number(response.headers.get("RateLimit-Remaining"));
  };
  return { ask, close, lines, isUp };
}
