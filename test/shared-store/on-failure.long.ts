// What happens to requests while the store cannot be asked, by `onFailure`: gateways that are cut off from it while a
// client is beyond its limit. Takes about 10 s.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import type { Asked } from "./client-line.ts";
import { limits } from "./fleet.ts";
import { shared, stageStore } from "./stage.ts";

const cleanup = useCleanup();
const share = limits.day / 2;

describe.skipIf(skipRedis)(`while the store cannot be asked${redisNeeded}`, () => {
  test.each<[mode: string, expected: Readonly<Record<number, number>>]>([
    ["local", { 200: 2 * share, 429: 3 * limits.day - 2 * share }],
    ["open", { 200: 3 * limits.day }],
    ["closed", { 503: 3 * limits.day }],
  ])("onFailure: %s", async (mode, expected) => {
    const settings = [`counters.redis.onFailure=${mode}`, "counters.redis.replicas=2", "counters.redis.wait=1s"];
    const { fleet, proxy, client } = await stageStore(cleanup, 2, { settings });
    await proxy.fault({ isRefused: true });
    await proxy.cut();
    const alone = client("/v1/day");
    // In several bursts: the first may find out that the connection is lost.
    const asked = [...(await alone.burst(limits.day)), ...(await alone.burst(2 * limits.day))];
    expect(countsOf(asked)).toEqual(expected);
    expect(asked.flatMap(({ missing }) => missing)).toEqual([]);
    for (const { status, retryAfterSeconds } of asked) expect(retryAfterSeconds > 0).toBe(status === 429);
    for (const gateway of fleet.gateways) expect(await gateway.readiness()).toBe(200);
    await proxy.fault({});
    await shared(fleet.gateways, 2);
    // What was admitted alone counts for all; a refusal by 503 has cost nothing.
    const after = await alone.burst(2 * limits.day);
    const used = Math.min(limits.day, expected[200] ?? 0);
    expect(after.filter(({ status }) => status === 200)).toHaveLength(limits.day - used);
  });
});

function countsOf(asked: readonly Asked[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of asked) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
