// Two gateways with one store, as an operator starts them: one limit, and what happens when the store goes and comes. What
// takes longer is in the other files of this folder.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import type { Asked } from "./client-line.ts";
import { limits } from "./fleet.ts";
import { shared, stageStore } from "./stage.ts";

const cleanup = useCleanup();
const admitted = (asked: readonly Asked[]): number => asked.filter(({ status }) => status === 200).length;

test.skipIf(skipRedis)(`two gateways admit one limit, its shares while the store is away${redisNeeded}`, async () => {
  // The counts are exact as long as no machine is so busy that the store seems to be slow.
  const settings = ["counters.redis.replicas=2", "counters.redis.wait=1s"];
  const { fleet, proxy, client } = await stageStore(cleanup, 2, { settings });
  const first = client("/v1/day");
  expect(admitted(await first.burst(20))).toBe(20);
  expect(admitted(await first.burst(2 * limits.day))).toBe(limits.day - 20);

  await proxy.fault({ isRefused: true });
  await proxy.cut();
  const second = client("/v1/day");
  const alone = await second.burst(2 * limits.day);
  expect(admitted(alone)).toBe(limits.day);
  expect(new Set(alone.map(({ status }) => status))).toEqual(new Set([200, 429]));

  await proxy.fault({});
  await shared(fleet.gateways, 2);
  // The store was told what each of the two has admitted.
  expect(admitted([...(await first.burst(20)), ...(await second.burst(20))])).toBe(0);
  expect([...first.asked, ...second.asked].flatMap(({ missing }) => missing)).toEqual([]);
});
