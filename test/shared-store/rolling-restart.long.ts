// Three gateways that are replaced one after the other under load, as a rollout does: those that have gone do not make the
// shares of the others smaller in an outage that follows within a minute. Takes about 40 s.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { limits } from "./fleet.ts";
import { shared, stageStore } from "./stage.ts";

const cleanup = useCleanup();
const count = 3;
const settings = ["counters.redis.wait=1s", "drain.delay=0s", "drain.timeout=2s"];

describe.skipIf(skipRedis)(`a rolling restart${redisNeeded}`, () => {
  test("leaves the share of three to three gateways", async () => {
    const { fleet, proxy, client } = await stageStore(cleanup, count, { settings });
    let isOver = false;
    const load = client("/v1/small").greedy(() => !isOver);
    for (const [place, old] of [...fleet.gateways].entries()) {
      const next = await fleet.start();
      fleet.replace(place, next);
      old.signal("SIGTERM");
      expect(await old.exited).toEqual({ code: 0, signal: null });
      await shared(fleet.gateways, count);
    }
    const replicas = async () =>
      Promise.all(fleet.gateways.map(async (gateway) => (await gateway.figures()).get("headgate_store_replicas")));
    const counted = async () => (await replicas()).every((each) => each === count);
    await eventually("the gateways that have gone are forgotten", counted, 60_000);
    isOver = true;
    await load;

    await proxy.fault({ isRefused: true });
    await proxy.cut();
    const alone = await client("/v1/day").burst(count * limits.day);
    const share = Math.floor(limits.day / count);
    expect(alone.filter(({ status }) => status === 200)).toHaveLength(count * share);
    expect(new Set(alone.map(({ status }) => status))).toEqual(new Set([200, 429]));
  });
});
