// A gateway that is busy for longer than requests wait for the store: answers that have arrived meanwhile are not late,
// and what they grant may still be spent. Takes about 5 s.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { limits, startFleet } from "./fleet.ts";
import { startRecordingUpstream } from "./recording-upstream.ts";
import { clientsOf, shared, total, warmUp } from "./stage.ts";
import { answersOf } from "./traffic.ts";

const cleanup = useCleanup();

describe.skipIf(skipRedis)(`a gateway that is busy now and then${redisNeeded}`, () => {
  // Tried again, because a machine that stands still looks like a store that does.
  test("does not take its own pauses for those of the store", { retry: 2 }, async () => {
    const redis = cleanup(await startRedis());
    const upstream = await startRecordingUpstream(cleanup);
    const busy = new URL("./busy-now-and-then.ts", import.meta.url);
    const store = ["counters.store=redis", `counters.redis.url=redis://127.0.0.1:${redis.port}`];
    // One of many: what it decides alone would be refused.
    const settings = [...store, "counters.redis.replicas=40"];
    const fleet = await startFleet(cleanup, upstream.url, 1, settings, { NODE_OPTIONS: `--import ${busy.href}` });
    await shared(fleet.gateways, 1);
    const client = clientsOf(cleanup, fleet);
    await warmUp({ client });
    const aloneBefore = await total(fleet.gateways, 'headgate_store_alone_total{mode="local"}');
    const clients = Array.from({ length: 20 }, () => client("/v1/day"));
    await Promise.all(
      clients.map((each) => {
        // What was sent, since answers may be late.
        let left = limits.day - 2;
        return each.steady(
          () => left-- > 0,
          15,
          () => 0,
        );
      }),
    );
    const { statuses } = answersOf(clients.flatMap(({ asked }) => asked));
    expect(statuses).toEqual({ 200: clients.length * (limits.day - 2) });
    expect(await total(fleet.gateways, 'headgate_store_alone_total{mode="local"}')).toBe(aloneBefore);
  });
});
