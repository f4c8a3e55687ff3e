// Something else under the key of one counter in the store: that counter is decided by onFailure, all others by the store.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { sharedCounters } from "../support/shared-settings.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const limit = 10;
const match = (path: string) => ({ paths: [path], methods: [] });

async function startGateway({ port }: RedisServer) {
  const upstream = cleanup(await startUpstream());
  const policies = [
    slidingPolicy({ name: "one", limit, windowMs: 3_600_000, match: match("/v1/") }),
    slidingPolicy({ name: "two", limit, windowMs: 3_600_000, match: match("/v2/") }),
  ];
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: { policies, counters: sharedCounters(port), drain: { timeoutMs: 0 } },
  });
  cleanup(() => gateway.close());
  await eventually("the store is up", async () => (await metric(gateway, 'headgate_store_state{state="up"}')) === 1);
  return gateway;
}

test.skipIf(skipRedis)(`something else under a key of the store affects this key alone${redisNeeded}`, async () => {
  const redis = cleanup(await startRedis());
  const gateway = await startGateway(redis);
  const admitted = async (path: string, count: number): Promise<number> => {
    const authorization = "Bearer x";
    const all = Array.from({ length: count }, () => fetch(`${gateway.url}${path}`, { headers: { authorization } }));
    const statuses = await Promise.all(all.map(async (response) => (await response).status));
    expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([]);
    return statuses.filter((status) => status === 200).length;
  };
  expect(await admitted("/v1/x", 1)).toBe(1);
  const key = redis.cli("--scan", "--pattern", "*:s/one/*");
  redis.cli("DEL", key);
  redis.cli("SET", key, "something else");

  const late = () => metric(gateway, "headgate_store_late_total");
  for (let i = 0; i < 2; i += 1) {
    // Both in one call of the script.
    const [one, two] = await Promise.all([admitted("/v1/x", limit), admitted("/v2/x", limit / 2)]);
    expect([one, two]).toEqual([i === 0 ? limit - 1 : 0, limit / 2]);
  }
  expect(await admitted("/v2/x", 1)).toBe(0);
  expect(await metric(gateway, 'headgate_store_state{state="up"}')).toBe(1);
  expect(gateway.logLines.filter(({ msg }) => msg === "store away" || msg === "store slow")).toEqual([]);
  expect(await late()).toBe(0);
  expect(await metric(gateway, 'headgate_store_calls_total{result="failed"}')).toBeGreaterThan(0);

  redis.cli("DEL", key);
  await eventually("the store is told what was admitted meanwhile", async () => {
    expect(await admitted("/v1/x", 1)).toBe(0);
    return redis.cli("TYPE", key) === "zset";
  });
  expect(redis.cli("ZSCORE", key, "units")).toBe(String(-limit));
});
