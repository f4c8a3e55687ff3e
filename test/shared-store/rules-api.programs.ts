// What the admin API says of a rule that was set while the store was away: it is not shared, and then it is.
import { describe, expect, test } from "vitest";
import { call, readToken } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { threadCounts } from "../support/runs.ts";
import { adminTokensFile } from "./admin-tokens-file.ts";
import { allBlock, isBlocked, newClient, stageRules } from "./rules-stage.ts";

const cleanup = useCleanup();
const path = "/api/rules/attack";

async function readRule({ admin }: TestGateway) {
  const { status, headers, json } = await call(admin.port, "GET", path, { token: readToken });
  return { status, tag: String(headers["etag"]), shared: (json as { shared?: boolean | null }).shared };
}

async function readiness({ adminUrl }: TestGateway): Promise<string | undefined> {
  const response = await fetch(`${adminUrl}/readyz`);
  return ((await response.json()) as { rules?: { state?: string } }).rules?.state;
}

describe.skipIf(skipRedis).each(threadCounts)(`a rule over the admin API, with %i threads${redisNeeded}`, (workers) => {
  test("is shared once the store is back, with the tag that it had", async () => {
    const stage = await stageRules(cleanup);
    const settings = { workers, admin: { tokensFile: adminTokensFile(cleanup) } };
    const [a, b] = [await stage.start(settings), await stage.start(settings)];
    await stage.up(a, b);
    const client = newClient();
    const put = (gateway: TestGateway, headers: Readonly<Record<string, string>> = {}) =>
      call(gateway.admin.port, "PUT", path, { body: { client, action: "block", for: "1h", force: true }, headers });
    await stage.redis.kill();
    for (const gateway of [a, b])
      await eventually("the store is away", async () => (await readiness(gateway)) === "away", 15_000);
    const alone = await put(a);
    expect([alone.status, (alone.json as { shared: unknown }).shared]).toEqual([201, false]);
    const { tag, ...rest } = await readRule(a);
    expect(rest).toEqual({ status: 200, shared: false });
    expect([await isBlocked(a, client), (await readRule(b)).status]).toEqual([true, 404]);

    await stage.redis.restart();
    await stage.up(a, b);
    await allBlock([a, b], client);
    await eventually("it is shared", async () => (await readRule(a)).shared === true);
    expect(await readRule(b)).toEqual({ status: 200, tag, shared: true });
    expect((await readRule(a)).tag).toBe(tag);

    // A condition that holds no more says what there is, whether this gateway has read it or not.
    const replaced = await put(a, { "if-match": tag });
    const now = String(replaced.headers["etag"]);
    expect(replaced.status).toBe(200);
    const errors = [{ errMsg: `If-Match: the entity tag of the rule is ${now} now.` }];
    for (const gateway of [b, a]) {
      const outrun = await put(gateway, { "if-match": tag });
      expect([outrun.status, (outrun.json as { errors: unknown }).errors]).toEqual([412, errors]);
    }
    expect((await put(b, { "if-none-match": "*" })).text).toContain("If-None-Match: there is a rule with this id.");
    expect((await put(b, { "if-match": "*" })).status).toBe(200);
  });
});
