// Rules and forgiveness through real gateways with one store: what is set or forgiven at one holds at all of them, and is told
// when a store, or a gateway, comes back.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BroadcastChannel } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { digestOf } from "../auth/digest.ts";
import { type Cleanup, cleanupOf } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { threadCounts } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { type Fault, faultChannel } from "../workers/faulty-thread.ts";
import { startFleet } from "./fleet.ts";
import {
  admittedByAll,
  admittedOfLimit,
  allBlock,
  anyway,
  ask,
  askAll,
  blockOf,
  isBlocked,
  limit,
  logReadBy,
  newClient,
  policies,
  replicas,
  setRule,
  stageRules,
  writer,
} from "./rules-stage.ts";
import { shared } from "./stage.ts";
import { startStoreProxy } from "./store-proxy.ts";

const share = Math.floor(limit / replicas);
const awayState = 'headgate_store_state{state="away"}';
const named = (client: string) => ({ kind: "client" as const, value: client });

const readiness = async ({ adminUrl }: TestGateway) => {
  const response = await fetch(`${adminUrl}/readyz`);
  return [response.status, ((await response.json()) as { rules?: { state?: string } }).rules?.state];
};
const noticed = (what: "away" | "read", ...gateways: readonly TestGateway[]): Promise<unknown> =>
  Promise.all(
    gateways.map((gateway) =>
      eventually(`the rules are ${what}`, async () => (await readiness(gateway))[1] === what, 15_000),
    ),
  );
const untold = (gateway: TestGateway): Promise<number> => metric(gateway, "headgate_shared_rules_untold");
const lines = ({ logLines }: TestGateway, message: string) => logLines.filter(({ msg }) => msg === message);

describe.skipIf(skipRedis).each(threadCounts)(`three gateways with %i threads${redisNeeded}`, (workers) => {
  const stageThree = async (cleanup: Cleanup) => {
    const stage = await stageRules(cleanup);
    const [a, b, c] = [await stage.start({ workers }), await stage.start({ workers }), await stage.start({ workers })];
    await stage.up(a, b, c);
    return { ...{ stage, redis: stage.redis, a, b, c }, all: [a, b, c] };
  };

  test.concurrent("feel a rule that was set at one of them within two heartbeats, and no more when it is removed", async (context) => {
    const { a, b, c, all } = await stageThree(cleanupOf(context));
    const client = newClient();
    const put = await setRule(a, blockOf(client));
    expect(put).toMatchObject({ ok: true, isShared: true, survivesRestart: true });
    expect(await isBlocked(a, client)).toBe(true);
    await allBlock(all, client);
    expect(await ask(b, newClient())).toBe(200);
    const { id, revision } = a.rules.get(`block-${client}`) ?? { id: "", revision: 0 };
    expect(c.rules.get(id)).toEqual(a.rules.get(id));
    expect(lines(a, "rule set")).toMatchObject([{ id, by: "ops", isForeign: false, isShared: true }]);
    expect(lines(b, "rule set")).toMatchObject([{ id, by: null, isForeign: true, isShared: true }]);

    const older = { expectedRevision: revision - 1 };
    expect(await b.rules.remove(id, writer, older)).toMatchObject({ ok: false, reason: "changed" });
    expect(await b.rules.put(blockOf(client), writer, { ...older, force: true })).toMatchObject({ reason: "changed" });
    expect(await b.rules.remove(id, writer, { expectedRevision: revision })).toMatchObject({ ok: true });
    expect(await isBlocked(b, client)).toBe(false);
    await allBlock(all, client, false);
    expect(await readiness(c)).toEqual([200, "read"]);
  });

  test.concurrent("admit a client that was forgiven at one of them, and exactly the limit", async (context) => {
    const { b, all } = await stageThree(cleanupOf(context));
    const client = newClient();
    expect(await askAll(all, client, limit)).toBe(limit);
    for (let time = 0; time < 3; time += 1) {
      const forgiven = await b.forgive(named(client));
      expect(forgiven).toMatchObject({ isShared: true, coarse: false, policies: [{ policy: "per-ip", keys: 1 }] });
      expect(await ask(b, client)).toBe(200);
      expect(await admittedOfLimit(all, client, 1)).toBe(limit);
    }
  });

  test.concurrent("hold what was set while the store was killed, and share it when it is back with nothing", async (context) => {
    const { stage, redis, a, b, c, all } = await stageThree(cleanupOf(context));
    const [blocked, before, forgiven] = [newClient(), newClient(), newClient()];
    await a.rules.put(blockOf(before), writer, anyway);
    await allBlock(all, before);
    await askAll(all, forgiven, limit);
    await redis.kill();
    await noticed("away", a, b, c);
    expect(await readiness(a)).toEqual([200, "away"]);
    expect(lines(a, "shared rules away")).toMatchObject([{ level: "warn" }]);

    const put = await setRule(a, blockOf(blocked));
    expect(put).toMatchObject({ ok: true, isShared: false, survivesRestart: false });
    expect(await b.rules.remove(`block-${before}`, writer, anyway)).toMatchObject({ ok: true });
    expect([await isBlocked(a, blocked), await isBlocked(b, blocked)]).toEqual([true, false]);
    expect([await isBlocked(a, before), await isBlocked(b, before)]).toEqual([true, false]);
    expect(await c.forgive(named(forgiven))).toMatchObject({ isShared: false });
    // Without the store, each gateway has its share.
    expect(await askAll([c], forgiven, limit)).toBe(share);
    expect([await untold(a), await untold(b), await untold(c)]).toEqual([1, 1, 1]);

    await redis.restart();
    await stage.up(a, b, c);
    await allBlock(all, blocked);
    await allBlock(all, before, false);
    await eventually("all is told", async () => (await untold(a)) + (await untold(b)) + (await untold(c)) === 0);
    expect(a.rules.isShared(`block-${blocked}`)).toBe(true);
    expect(lines(a, "shared rules read")).toHaveLength(2);
    await c.forgive(named(forgiven));
    // What is admitted before the store has emptied the counter is forgiven, too.
    for (const other of [a, b]) await logReadBy(other, c);
    expect(await admittedOfLimit(all, forgiven)).toBe(limit);
  });

  test.concurrent("learn what a gateway has missed that was cut off for a while", async (context) => {
    const cleanup = cleanupOf(context);
    const stage = await stageRules(cleanup);
    const proxy = await startStoreProxy(cleanup, stage.redis.port);
    const [a, b] = [await stage.start({ workers }), await stage.start({ workers })];
    const c = await stage.start({ workers }, proxy.port);
    await stage.up(a, b, c);
    const [blocked, forgiven] = [newClient(), newClient()];
    expect(await askAll([a, b, c], forgiven, limit)).toBe(limit);
    await proxy.fault({ isHeld: true });
    await noticed("away", c);
    await a.rules.put(blockOf(blocked), writer, anyway);
    await a.forgive(named(forgiven));
    await allBlock([a, b], blocked);
    expect(await isBlocked(c, blocked)).toBe(false);
    await admittedByAll([a, b], forgiven);
    // The one that is cut off goes on with its own count.
    expect(await askAll([c], forgiven, limit)).toBe(0);

    await proxy.fault({});
    await stage.up(c);
    await allBlock([c], blocked);
    // What it had admitted before it was forgiven, it does not tell.
    expect(2 + (await askAll([a, b, c], forgiven, limit))).toBe(limit);
    await b.forgive(named(forgiven));
    expect(await admittedOfLimit([a, b, c], forgiven)).toBe(limit);

    // What it admits alone after it was forgiven, it tells.
    await a.forgive(named(forgiven));
    await logReadBy(c, a);
    await admittedByAll([a, b, c], forgiven);
    await proxy.fault({ isHeld: true });
    await noticed("away", c);
    await eventually("the counters are away", async () => (await metric(c, awayState)) === 1);
    const alone = await askAll([c], forgiven, limit);
    expect(alone).toBeGreaterThan(0);
    await proxy.fault({});
    await stage.up(c);
    expect(3 + alone + (await askAll([a, b, c], forgiven, limit))).toBe(limit);
  });

  test.concurrent("go on when one of them is killed, and the next one has the rules from its first request on", async (context) => {
    const cleanup = cleanupOf(context);
    const stage = await stageRules(cleanup);
    const a = await stage.start({ workers });
    const settings = [
      ...["counters.store=redis", `counters.redis.url=redis://127.0.0.1:${stage.redis.port}`],
      ...["counters.redis.wait=1s", `counters.redis.replicas=${replicas}`, `workers=${workers}`],
      `policies=${JSON.stringify(policies.map(({ name }) => ({ name, limit, window: "1h" })))}`,
    ];
    const fleet = await startFleet(cleanup, stage.upstreamUrl, 2, settings);
    const processes = fleet.gateways.map(({ port }) => ({ traffic: { host: "127.0.0.1", port } }));
    await stage.up(a);
    await shared(fleet.gateways, replicas);
    const [blocked, forgiven] = [newClient(), newClient()];
    const all = [a, ...processes];
    expect(await askAll(all, forgiven, limit)).toBe(limit);
    fleet.gateways[0]?.signal("SIGKILL");
    await fleet.gateways[0]?.exited;
    await a.rules.put(blockOf(blocked), writer, anyway);
    await a.forgive(named(forgiven));
    const next = await fleet.start();
    fleet.replace(0, next);
    const alive = [a, { traffic: { host: "127.0.0.1", port: next.port } }, ...processes.slice(1)];
    expect(await isBlocked(alive[1] ?? a, blocked)).toBe(true);
    await allBlock(alive, blocked);
    expect(await admittedOfLimit(alive, forgiven)).toBe(limit);
  });
});

describe.skipIf(skipRedis)(`a gateway${redisNeeded}`, () => {
  test.concurrent("does not bring back rules of its snapshot that were removed meanwhile, and tells one that was set alone", async (context) => {
    const cleanup = cleanupOf(context);
    const stage = await stageRules(cleanup);
    const [removed, kept, alone] = [newClient(), newClient(), newClient()];
    const snapshot = { path: join(scratchFolder(cleanup), "counters"), everyMs: 3_600_000 };
    const a = await stage.start({ counters: { snapshot } });
    const b = await stage.start();
    await stage.up(a, b);
    await a.rules.put(blockOf(removed), writer, anyway);
    await a.rules.put(blockOf(kept), writer, anyway);
    await allBlock([b], removed);
    await stage.redis.kill();
    await noticed("away", a, b);
    await a.rules.put(blockOf(alone), writer, anyway);
    await a.close();
    await stage.redis.restart();
    await stage.up(b);
    await b.rules.remove(`block-${removed}`, writer, anyway);

    const next = await stage.start({ counters: { snapshot } });
    expect([await isBlocked(next, removed), await isBlocked(next, kept)]).toEqual([false, true]);
    await allBlock([b], alone);
    expect(next.rules.list().map(({ id }) => id)).not.toContain(`block-${removed}`);
    await b.rules.put(blockOf(removed), writer, anyway);
    await allBlock([next], removed);
    await stage.redis.kill();
    await noticed("away", next, b);
    await next.close();
    // Without the store, those of the snapshot hold, and can be removed.
    const last = await stage.start({ counters: { snapshot } });
    expect(lines(last, "shared rules not read yet")).toHaveLength(1);
    expect(await readiness(last)).toEqual([200, "unread"]);
    expect([await isBlocked(last, removed), await isBlocked(last, kept)]).toEqual([true, true]);
    expect(await last.rules.remove(`block-${kept}`, writer, anyway)).toMatchObject({ ok: true });
    expect(await isBlocked(last, kept)).toBe(false);
  });

  // By itself: it ends threads of every gateway of this process.
  test("finds the keys of tokens although a thread has got their secret from the store, also for a thread that is replaced", async (context) => {
    const cleanup = cleanupOf(context);
    const stage = await stageRules(cleanup);
    const tokensFile = join(scratchFolder(cleanup), "tokens.txt");
    writeFileSync(tokensFile, `${digestOf("secret-token")} # alice\n`);
    const byToken = policies.map((policy) => ({ ...policy, key: [{ kind: "token" as const }] }));
    const settings = { workers: 2, policies: byToken, auth: { mode: "tokens" as const, tokensFile } };
    const [a, b] = [await stage.start(settings), await stage.start(settings)];
    await stage.up(a, b);
    const client = newClient();
    const alice = { kind: "token" as const, value: "alice" };
    expect(await askAll([a, b], client, limit)).toBe(limit);
    expect(await b.forgive(alice)).toMatchObject({ isShared: true, policies: [{ keys: 1, units: limit / 2 }] });
    expect(await admittedOfLimit([a, b], client)).toBe(limit);
    const channel = new BroadcastChannel(faultChannel);
    for (const thread of [1, 2]) channel.postMessage({ thread, on: null, how: "exit" } satisfies Fault);
    channel.close();
    for (const gateway of [a, b])
      await eventually("threads are replaced", () => lines(gateway, "worker started").length === 2, 20_000);
    await stage.up(a, b);
    expect(await askAll([a, b], client, limit)).toBe(0);
    await a.forgive(alice);
    expect(await admittedOfLimit([a, b], client)).toBe(limit);
  });

  test.concurrent("forgives nobody where there is no such name, and tells it to nobody", async (context) => {
    const cleanup = cleanupOf(context);
    const stage = await stageRules(cleanup);
    const a = await stage.start();
    await stage.up(a);
    expect(await a.forgive({ kind: "client", value: "192.0.2.0/24" })).toBeNull();
    expect(await a.forgive({ kind: "key", value: "alice" })).toBeNull();
    expect(stage.redis.cli("EXISTS", "headgate:1:{rules}:entries")).toBe("0");
  });
});
