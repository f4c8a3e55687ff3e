// Two gateways that are cut off from the store for a whole minute, by a network that passes nothing and by one that refuses
// connections, while people set and forgive at another gateway: two heartbeats after they are back, all hold the same rules,
// and who was forgiven gets the limit once. Takes about 75 s.
import { setTimeout } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import {
  admittedByAll,
  admittedOfLimit,
  allBlock,
  anyway,
  askAll,
  blockOf,
  heardMs,
  isBlocked,
  limit,
  newClient,
  replicas,
  setRule,
  stageRules,
  writer,
} from "./rules-stage.ts";
import { startStoreProxy } from "./store-proxy.ts";

const cleanup = useCleanup();
const minuteMs = 60_000;
const share = Math.floor(limit / replicas);
const named = (client: string) => ({ kind: "client" as const, value: client });
const isAway = async (gateway: TestGateway): Promise<boolean> =>
  (await metric(gateway, 'headgate_store_state{state="away"}')) === 1 &&
  (await metric(gateway, 'headgate_shared_rules_state{state="away"}')) === 1;
const rulesOf = ({ rules }: TestGateway) => rules.list().toSorted((a, b) => (a.id < b.id ? -1 : 1));

describe.skipIf(skipRedis)(`gateways that are cut off for a minute${redisNeeded}`, () => {
  test("have missed nothing when they are back", { timeout: 180_000 }, async () => {
    const stage = await stageRules(cleanup);
    const [held, refused] = [
      await startStoreProxy(cleanup, stage.redis.port),
      await startStoreProxy(cleanup, stage.redis.port),
    ];
    const [a, b] = [await stage.start(), await stage.start({ workers: 2 })];
    const [c, d] = [await stage.start({}, held.port), await stage.start({ workers: 2 }, refused.port)];
    const [there, cutOff] = [
      [a, b],
      [c, d],
    ];
    const all = [...there, ...cutOff];
    await stage.up(...all);
    const [set, replaced, removed, forgiven, alone, ownRule] = Array.from({ length: 6 }, newClient) as [
      ...[string, string, string, string, string, string],
    ];
    await a.rules.put(blockOf(replaced), writer, anyway);
    await a.rules.put(blockOf(removed), writer, anyway);
    await allBlock(all, removed);
    await allBlock(all, replaced);
    // Each has admitted some of it, and all of them know that nothing is left.
    expect(await askAll(all, forgiven, limit)).toBe(limit);

    await held.fault({ isHeld: true });
    await refused.fault({ isRefused: true });
    await refused.cut();
    const startMs = performance.now();
    for (const gateway of cutOff) await eventually("it is away", () => isAway(gateway), 15_000);
    await a.rules.put(blockOf(set), writer, anyway);
    const other = { ...blockOf(replaced), action: "limit", policy: "per-ip", limit: 2 * limit };
    expect(await setRule(a, other)).toMatchObject({ ok: true, isShared: true });
    expect(await a.rules.remove(`block-${removed}`, writer, anyway)).toMatchObject({ ok: true });
    expect(await a.forgive(named(forgiven))).toMatchObject({ isShared: true });
    // What a gateway sets that is cut off holds there alone.
    expect(await setRule(d, blockOf(ownRule))).toMatchObject({ ok: true, isShared: false });
    await allBlock(there, set);
    const before = await admittedByAll(there, forgiven);
    for (const gateway of cutOff)
      expect([await isBlocked(gateway, set), await isBlocked(gateway, removed)]).toEqual([false, true]);
    // Who is forgiven without having used anything gets the share of each that is cut off, and the limit of the others.
    expect(await a.forgive(named(alone))).toMatchObject({ isShared: true });
    const asked = { alone: await askAll(cutOff, alone, limit), there: await askAll(there, alone, limit) };
    expect(asked).toEqual({ alone: cutOff.length * share, there: limit });
    await setTimeout(Math.max(0, minuteMs - (performance.now() - startMs)));
    for (const gateway of cutOff) expect(await isAway(gateway)).toBe(true);

    await held.fault({});
    await refused.fault({});
    const ids = [`block-${set}`, `block-${replaced}`, `block-${ownRule}`].sort();
    const hold = (gateway: TestGateway): boolean => isDeepStrictEqual(rulesOf(gateway), rulesOf(b));
    await eventually("all hold the same rules", () => rulesOf(b).length === ids.length && all.every(hold), 2 * heardMs);
    expect(rulesOf(b).map(({ id }) => id)).toEqual(ids);
    await allBlock(all, set);
    await allBlock(all, ownRule);
    await allBlock(all, replaced, false);
    await allBlock(all, removed, false);
    await stage.up(...all);
    expect(await askAll(all, alone, limit)).toBe(0);
    // Those that were away do not tell what they had counted before.
    expect(before + (await askAll(all, forgiven, limit))).toBe(limit);
    expect(await c.forgive(named(forgiven))).toMatchObject({ isShared: true });
    expect(await admittedOfLimit(all, forgiven)).toBe(limit);
  });
});
