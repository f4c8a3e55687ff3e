// The status of a gateway says which gateways share its store: one that is killed is not among them any more, and one that
// ends is gone at once.
import { hostname } from "node:os";
import { describe, expect, test } from "vitest";
import { call, readToken } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { threadCounts } from "../support/runs.ts";
import { sharedCounters } from "../support/shared-settings.ts";
import { adminTokensFile } from "./admin-tokens-file.ts";
import { startFleet } from "./fleet.ts";
import { stageRules } from "./rules-stage.ts";

const cleanup = useCleanup();

interface Listed {
  readonly name: string;
  readonly version: string;
  readonly started: string;
  readonly admin: string | null;
  readonly isSelf: boolean;
}

async function gatewaysOf({ admin }: Pick<TestGateway, "admin">): Promise<readonly Listed[]> {
  const { json } = await call(admin.port, "GET", "/api/status", { token: readToken });
  return (json as { store: { gateways: readonly Listed[] } }).store.gateways;
}

describe.skipIf(skipRedis)(`the status${redisNeeded}`, () => {
  test.each(threadCounts)("lists the gateways of the store, with %i threads", async (workers) => {
    const stage = await stageRules(cleanup);
    const tokensFile = adminTokensFile(cleanup);
    const a = await stage.start({ workers, admin: { tokensFile } });
    const b = await stage.start({ workers });
    const { gateways } = await startFleet(cleanup, stage.upstreamUrl, 1, [
      ...["counters.store=redis", `counters.redis.url=redis://127.0.0.1:${stage.redis.port}`, `workers=${workers}`],
      `admin.tokensFile=${tokensFile}`,
    ]);
    const [killed] = gateways;
    await eventually("all are listed", async () => (await gatewaysOf(a)).length === 3);
    const listed = await gatewaysOf(a);
    const of = (port: number | undefined) => listed.find(({ admin }) => admin === `127.0.0.1:${port}`);
    expect(new Set(listed.map(({ name }) => name))).toEqual(new Set([hostname()]));
    expect(listed.filter(({ isSelf }) => isSelf)).toEqual([of(a.admin.port)]);
    expect(of(a.admin.port)).toMatchObject({ version: "0.0.0-test" });
    expect(of(killed?.adminPort)).toMatchObject({ isSelf: false });
    // That one has no API.
    expect(listed.filter(({ admin }) => admin === null)).toHaveLength(1);
    const status = await call(a.admin.port, "GET", "/api/status", { token: readToken });
    expect(of(a.admin.port)?.started).toBe((status.json as { started: string }).started);

    killed?.signal("SIGKILL");
    await b.close();
    await eventually("the one that ends is gone", async () =>
      (await gatewaysOf(a)).every(({ admin }) => admin !== null),
    );
    await eventually("so is the one that was killed", async () => (await gatewaysOf(a)).length === 1, 20_000);
    expect(await gatewaysOf(a)).toMatchObject([{ isSelf: true }]);
  });

  test.each(threadCounts)(
    "says since when the store is in its state, and of counts whether others have some, with %i threads",
    { timeout: 60_000 },
    async (workers) => {
      const stage = await stageRules(cleanup);
      const admin = { tokensFile: adminTokensFile(cleanup) };
      // The gateways of the stage have a number of replicas.
      const overrides = { workers, admin, counters: sharedCounters(stage.redis.port) };
      const start = async () => {
        const gateway = await startTestGateway({ upstreamUrl: stage.upstreamUrl, overrides });
        cleanup(() => gateway.close());
        return gateway;
      };
      const a = await start();
      const get = async (path: string) => (await call(a.admin.port, "GET", path, { token: readToken })).json;
      const store = async () =>
        (await get("/api/status")) as { store: { state: string; since: string; replicas: number } };
      const isShared = async () => ((await get("/api/clients")) as { isShared: boolean }).isShared;
      await eventually("the store is up", async () => (await store()).store.state === "up");
      expect(await isShared()).toBe(false);
      await start();
      await eventually("the other one is counted", async () => (await store()).store.replicas === 2);
      expect(await isShared()).toBe(true);
      const { since } = (await store()).store;
      const beforeMs = Date.now();
      await stage.redis.kill();
      await eventually("the store is away", async () => (await store()).store.state === "away", 15_000);
      const away = Date.parse((await store()).store.since);
      expect(Date.parse(since)).toBeLessThan(beforeMs);
      expect([away >= beforeMs, away <= Date.now() + 1]).toEqual([true, true]);
      expect(Date.parse((await store()).store.since)).toBe(away);
      expect(await isShared()).toBe(true);
    },
  );
});
