// One limit over four gateways of which one is killed every 150 ms, with another one at hand in its place: starting one
// takes longer than that. What they held is lost, and counts until its lease and the window are over. Takes about 25 s.
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { limits } from "./fleet.ts";
import { underLoad } from "./load.ts";
import { reportLoad } from "./report.ts";
import { clientsOf, shared, stageStore, total } from "./stage.ts";

const cleanup = useCleanup();
const everyMs = 150;
const kills = 16;
const inUse = 4;
/** By which a limit is exceeded at most where gateways decide without the store: each has its share, those that are killed too. */
const away = (limit: number): number => limit + (inUse + kills) * Math.floor(limit / (inUse + kills));

describe.skipIf(skipRedis)(`gateways that are killed${redisNeeded}`, () => {
  test("one every 150 ms: never above a limit, and no 5xx", async () => {
    const { upstream, fleet } = await stageStore(cleanup, inUse);
    const spares: GatewayProcess[] = [];
    // Two at a time, as there are processors.
    while (spares.length < kills) spares.push(...(await Promise.all([fleet.start(), fleet.start()])));
    await shared([...fleet.gateways, ...spares], inUse + kills);
    const killed = new Set<number>();
    const decidedAlone = (gateways: readonly GatewayProcess[]) =>
      total(gateways, 'headgate_store_alone_total{mode="local"}');
    let alone = 0;
    const result = await underLoad({ upstream, fleet, client: clientsOf(cleanup, fleet) }, async () => {
      for (const [i, spare] of spares.entries()) {
        const gateway = fleet.gateways[i % inUse] as GatewayProcess;
        killed.add(gateway.port);
        alone += await decidedAlone([gateway]);
        fleet.replace(i % inUse, spare);
        gateway.signal("SIGKILL");
        await setTimeout(everyMs);
      }
    });
    reportLoad("a gateway is killed every 150 ms", result);
    alone += await decidedAlone(fleet.gateways);
    // A store that gets no processor for longer than `wait` is slow, and gateways decide alone.
    const bound = (limit: number): number => (alone > 0 ? away(limit) : limit);
    expect(result.small.worst).toBeLessThanOrEqual(bound(limits.small));
    expect(result.edge.worst).toBeLessThanOrEqual(bound(limits.small));
    expect(result.large.worst).toBeLessThanOrEqual(bound(limits.large));
    // 0: its connection ended with the gateway.
    expect(Object.keys(result.after.statuses)).toEqual(["0", "200", "429"]);
    expect([...result.after.lostAt].filter((port) => !killed.has(port))).toEqual([]);
    expect(result.after.incomplete).toBe(0);
    // Each call that was under way may strand its unit for its lease.
    const { admitted, ideal, lost } = result.small;
    expect(admitted + lost).toBeGreaterThan(0.9 * ideal);
  });
});
