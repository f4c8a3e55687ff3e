// `quota.path`: a caller is told what it has left, on every carrier of traffic. It spends nothing, sees nothing of others, and
// never reaches the upstream.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import type { RuleInput } from "../../src/core/rules.ts";
import { digestOf } from "../auth/digest.ts";
import { stageDecision } from "../ext-auth/stage.ts";
import { stageRules } from "../shared-store/rules-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { expectContractFields, expectOwnAnswer } from "../support/contract-fields.ts";
import { type Overrides, type TestGateway, testSettings } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { askOnce, type FramedResponse, RawConnection } from "../support/raw-connection.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request, stageHttp } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const tls = useTls();
const quota = { path: "/quota" };
const perIp = slidingPolicy({ limit: 10, windowMs: 60_000 });
const writer = { name: "ops", address: null };
const anyway = { expectedRevision: null, force: true };

interface Told {
  readonly isVerified: boolean;
  readonly isShared: boolean;
  readonly policies: readonly Readonly<Record<string, unknown>>[];
}

/** A request with another token, or with none. */
function asking(target: string, token: string | null, method = "GET", fields = ""): string {
  const authorization = token === null ? "" : `Authorization: Bearer ${token}\r\n`;
  return `${method} ${target} HTTP/1.1\r\nHost: api.test\r\n${authorization}${fields}\r\n`;
}

async function start(overrides: Overrides = {}, clock = new FakeClock()) {
  const all = { quota, policies: [perIp], drain: { timeoutMs: 0 }, ...overrides };
  const { upstream, gateway } = await stageHttp(cleanup, undefined, all, clock);
  const settings = (changes: Overrides = {}) => testSettings(upstream.url, { ...all, ...changes });
  return { upstream, gateway, clock, settings, ask: (bytes: string) => ask(gateway, bytes) };
}

function ask({ traffic }: TestGateway, bytes: string): Promise<FramedResponse> {
  return askOnce(cleanup, traffic.port, bytes);
}

function toldBy({ status, body }: { readonly status: number; readonly body: string }): Told {
  expect(status).toBe(200);
  return JSON.parse(body);
}

/** What is said of each policy: its state, and what was used of its limit. */
function summary(told: Told): Record<string, string> {
  return Object.fromEntries(
    told.policies.map(({ name, state, used, limit, method, route }) => [
      [name, method, route].filter((part) => part !== null).join(" "),
      `${state} ${used}/${limit}`,
    ]),
  );
}

function tokensFile(...names: readonly string[]): string {
  const file = join(scratchFolder(cleanup), "tokens");
  writeFileSync(file, names.map((name) => `${digestOf(`${name}-token`)} # ${name}\n`).join(""));
  return file;
}

const listed = (...names: readonly string[]) => ({
  mode: "tokens" as const,
  rules: [],
  tokensFile: tokensFile(...names),
});

describe("the answer", () => {
  test("says what the caller has left of a window, spends nothing, and never reaches the upstream", async () => {
    const { ask, upstream, gateway, clock } = await start();
    for (let i = 0; i < 3; i += 1) await ask(request("/v2/x"));
    const hits = upstream.hits();
    clock.advance(18_500);
    for (let i = 0; i < 2; i += 1) {
      const response = await ask(request("/quota?x=1"));
      expect(toldBy(response)).toEqual({
        isVerified: false,
        isShared: false,
        policies: [
          {
            ...{ name: "per-ip", state: "open", limit: 10, used: 3, remaining: 7, resetSeconds: 42, cost: 1 },
            rate: { kind: "sliding", windowSeconds: 60 },
            ...{ key: ["client"], match: { paths: [], methods: [] }, method: null, route: null },
          },
        ],
      });
      expectContractFields(response, { limit: 10, remaining: 7 });
      expect(valuesOf(response.rawHeaders, "Cache-Control")).toEqual(["no-store"]);
      expect(valuesOf(response.rawHeaders, "Content-Type")).toEqual(["application/json; charset=utf-8"]);
      expect(valuesOf(response.rawHeaders, "X-Request-Id")).toHaveLength(1);
    }
    expect(upstream.hits()).toBe(hits);
    expect(await metric(gateway, 'headgate_decisions_total{policy="per-ip",outcome="admitted"}')).toBe(3);
    expect(gateway.logLines.at(-1)).toMatchObject({ path: "/quota", route: null, status: 200, problem: null });
  });

  test("to HEAD has the same fields and no body", async () => {
    const { ask } = await start();
    const [get, head] = [await ask(request("/quota")), await ask(request("/quota", { method: "HEAD" }))];
    expect([head.status, head.body]).toEqual([200, ""]);
    expect(valuesOf(head.rawHeaders, "Content-Length")).toEqual([`${get.body.length}`]);
    expectContractFields(head, { limit: 10, remaining: 10 });
  });

  test("has each kind of limit, and no shadow", async () => {
    const { ask, clock } = await start({
      policies: [
        perIp,
        { ...perIp, name: "daily", rate: { kind: "calendar", per: "day", timezone: "UTC" }, limit: 5 },
        { ...perIp, name: "at-once", rate: { kind: "concurrency" }, limit: 2 },
        { ...perIp, name: "trial", mode: "shadow", limit: 1 },
        { ...perIp, name: "exports", cost: 4, match: { paths: ["/v2/export/"], methods: ["POST"] } },
      ],
    });
    await ask(request("/v2/x"));
    const { policies } = toldBy(await ask(request("/quota")));
    expect(policies.map(({ name, used, remaining, cost }) => [name, used, remaining, cost])).toEqual([
      ["per-ip", 1, 9, 1],
      ["daily", 1, 4, 1],
      ["at-once", 0, 2, 1],
      ["exports", 0, 10, 4],
    ]);
    expect(policies.map(({ rate }) => rate)).toEqual([
      { kind: "sliding", windowSeconds: 60 },
      { kind: "calendar", per: "day", timezone: "UTC" },
      { kind: "concurrency" },
      { kind: "sliding", windowSeconds: 60 },
    ]);
    const midnightMs = Math.ceil(clock.wallMs() / 86_400_000) * 86_400_000;
    const daySeconds = Math.ceil((midnightMs - clock.wallMs()) / 1000);
    expect(policies.map(({ resetSeconds }) => resetSeconds)).toEqual([60, daySeconds, null, null]);
    expect(policies[3]?.["match"]).toEqual({ paths: ["/v2/export/"], methods: ["POST"] });
  });

  test("is exhausted when a request costs more than what is left, and is told all the same", async () => {
    const { ask } = await start({ policies: [{ ...perIp, limit: 5, cost: 2 }] });
    for (let i = 0; i < 2; i += 1) expect((await ask(request("/v2/x"))).status).toBe(200);
    expect((await ask(request("/v2/x"))).status).toBe(429);
    const [policy] = toldBy(await ask(request("/quota"))).policies;
    expect(policy).toMatchObject({ state: "exhausted", used: 4, remaining: 1, resetSeconds: 60 });
  });

  test("counts each route and method of a policy that does, to a bound", async () => {
    const byRoute: Policy = { ...perIp, name: "by-route", key: [{ kind: "client" }, { kind: "route" }] };
    const byMethod: Policy = { ...perIp, name: "by-method", key: [{ kind: "client" }, { kind: "method" }] };
    const both: Policy = { ...byRoute, name: "both", key: [...byRoute.key, { kind: "method" }] };
    const more = Array.from({ length: 8 }, (_, i) => ({ ...both, name: `both-${i}` }));
    const { ask } = await start({ policies: [byRoute, byMethod, ...more, { ...perIp, name: "last" }] });
    await ask(request("/v2/x", { method: "POST" }));
    const told = summary(toldBy(await ask(request("/quota"))));
    expect(told).toMatchObject({
      "by-route /v1/": "open 0/10",
      "by-route /v2/": "open 1/10",
      "by-method GET": "open 0/10",
      "by-method POST": "open 1/10",
      "both-0 POST /v2/": "open 1/10",
      // 2 for the routes, 9 for the methods, 18 for both: two of those fit among 64.
      "both-1 POST /v2/": "open 1/10",
      "both-2": "unknown null/10",
      last: "open 1/10",
    });
    expect(Object.keys(told)).toHaveLength(2 + 9 + 2 * 18 + 6 + 1);
  });
});

describe("who asks", () => {
  const policies: Policy[] = [
    perIp,
    { ...perIp, name: "partner", limit: 100, who: "verified", key: [{ kind: "token" }] },
    { ...perIp, name: "others", limit: 4, who: "others" },
  ];
  const auth = () => listed("alice", "bob");

  test("a verified token is told of its own counters, and of those of its address", async () => {
    const { ask } = await start({ policies, auth: auth() });
    for (let i = 0; i < 3; i += 1) await ask(asking("/v2/x", "alice-token"));
    const alice = toldBy(await ask(asking("/quota", "alice-token")));
    expect([alice.isVerified, summary(alice)]).toEqual([true, { "per-ip": "open 3/10", partner: "open 3/100" }]);
    const bob = toldBy(await ask(asking("/quota", "bob-token")));
    expect(summary(bob)).toEqual({ "per-ip": "open 3/10", partner: "open 0/100" });
  });

  test("without a token, only what is counted for the address is told", async () => {
    const { ask } = await start({ policies, auth: auth() });
    await ask(asking("/v2/x", "alice-token"));
    await ask(asking("/v2/x", null));
    const told = toldBy(await ask(asking("/quota", null)));
    expect([told.isVerified, summary(told)]).toEqual([false, { "per-ip": "open 2/10", others: "open 1/4" }]);
  });

  test.each([
    ["not listed", "mallory-token"],
    ["malformed", "alice-token,"],
  ])("a token that is %s gets the 401 of the mode, which the budget for refusals pays", async (_, token) => {
    const refusals = { perSecond: 1, burst: 3 };
    const { ask, upstream, gateway } = await start({ policies, auth: auth(), refusals });
    for (let i = 0; i < 3; i += 1) {
      const response = await ask(asking("/quota", token));
      expect(response.status).toBe(401);
      expectOwnAnswer(response, "Unauthorized", "Access token does not exist.");
      expectContractFields(response, { limit: 10, remaining: 10 });
    }
    const spent = await ask(asking("/quota", token));
    expect(spent.status).toBe(429);
    expectOwnAnswer(spent, "Too Many Requests", "Too many requests, please try again later.");
    // Nor is a good token looked at then, whether it is known or not.
    expect((await ask(asking("/quota", "alice-token"))).status).toBe(429);
    expect((await ask(asking("/v2/x", "alice-token"))).status).toBe(200);
    expect(upstream.hits()).toBe(1);
    expect(await metric(gateway, 'headgate_refusals_total{reason="too_many_refusals"}')).toBe(2);
    expect(await metric(gateway, 'headgate_decisions_total{policy="others",outcome="admitted"}')).toBe(0);
  });

  test("a token is checked as strictly as any path checks it; in mode off it is not read", async () => {
    const strict = { mode: "presence" as const, tokensFile: tokensFile("alice") };
    const rules = [{ paths: ["/v2/"], methods: [], mode: "tokens" as const, scopes: [] }];
    const { ask, gateway, settings } = await start({ policies, auth: { ...strict, rules } });
    expect((await ask(asking("/quota", "mallory-token"))).status).toBe(401);
    expect(toldBy(await ask(asking("/quota", "alice-token"))).isVerified).toBe(true);
    const off = { mode: "off" as const, rules: [], tokensFile: null };
    expect(await gateway.reload(settings({ policies: [perIp], auth: off }))).toMatchObject({ ok: true });
    expect(toldBy(await ask(asking("/quota", "x,y"))).isVerified).toBe(false);
  });

  test("a key of header values alone is not told, so that nobody asks about the values of others", async () => {
    const header = { kind: "header", name: "x-tenant" } as const;
    const { ask } = await start({
      policies: [
        { ...perIp, name: "tenant", key: [header] },
        { ...perIp, name: "own-tenant", key: [{ kind: "client" }, header] },
        { ...perIp, name: "all", key: [] },
      ],
    });
    await ask(asking("/v2/x", "t", "GET", "X-Tenant: acme\r\n"));
    const told = toldBy(await ask(asking("/quota", "t", "GET", "X-Tenant: acme\r\n")));
    expect(summary(told)).toEqual({ tenant: "unknown null/10", "own-tenant": "open 1/10", all: "open 1/10" });
    expect(told.policies[0]).toMatchObject({ remaining: null, resetSeconds: null, key: ["header:x-tenant"] });
  });

  test("exemptions and other limits are taken into account, those of rules too", async () => {
    const { ask, gateway } = await start({
      policies: [
        { ...perIp, name: "free", exempt: ["127.0.0.0/8"] },
        { ...perIp, overrides: [{ part: "client", value: "127.0.0.1", limit: 77 }] },
        { ...perIp, name: "ruled" },
      ],
    });
    const rule: RuleInput = { id: "more", client: "127.0.0.1", action: "limit", policy: "ruled", limit: 33, for: "1h" };
    expect(await gateway.rules.put(rule, writer, anyway)).toMatchObject({ ok: true });
    await ask(request("/v2/x"));
    const told = toldBy(await ask(request("/quota")));
    expect(summary(told)).toEqual({ free: "exempt null/10", "per-ip": "open 1/77", ruled: "open 1/33" });
    const exempt: RuleInput = { id: "all", client: "127.0.0.1", action: "exempt", for: "1h" };
    await gateway.rules.put(exempt, writer, anyway);
    expect(Object.values(summary(toldBy(await ask(request("/quota")))))).toEqual([
      "exempt null/10",
      "exempt null/10",
      "exempt null/10",
    ]);
  });

  test("a rule about a token holds for the policies that are asked after its check, as it does for any request", async () => {
    const { ask, gateway } = await start({ policies, auth: auth() });
    const exempt: RuleInput = { id: "alice", token: "alice", action: "exempt", for: "1h" };
    expect(await gateway.rules.put(exempt, writer, anyway)).toMatchObject({ ok: true });
    const response = await ask(asking("/v2/x", "alice-token"));
    expect(valuesOf(response.rawHeaders, "RateLimit-Remaining")).toEqual(["9"]);
    const told = toldBy(await ask(asking("/quota", "alice-token")));
    expect(summary(told)).toEqual({ "per-ip": "open 1/10", partner: "exempt null/100" });
  });

  test("who is blocked gets what a blocked one gets", async () => {
    const { ask, gateway } = await start({ policies, auth: auth() });
    const ofToken: RuleInput = { id: "alice", token: "alice", action: "block", for: "1h" };
    expect(await gateway.rules.put(ofToken, writer, anyway)).toMatchObject({ ok: true });
    const blocked = await ask(asking("/quota", "alice-token"));
    expect(blocked.status).toBe(403);
    expectOwnAnswer(blocked, "Forbidden", "Access is not allowed.");
    expect((await ask(asking("/quota", "bob-token"))).status).toBe(200);
    await gateway.rules.put({ id: "own", client: "127.0.0.1", action: "block", for: "1h" }, writer, anyway);
    for (const token of ["bob-token", "mallory-token", null]) {
      expect((await ask(asking("/quota", token))).status).toBe(403);
    }
    expect(gateway.logLines.at(-1)).toMatchObject({ problem: "blocked", rule: "own" });
  });
});

describe("what is not answered", () => {
  test.each(["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])(
    "%s: 405 with Allow, which spends no quota",
    async (method) => {
      const { ask, upstream } = await start();
      const response = await ask(request("/quota", { method, fields: "Content-Length: 0\r\n" }));
      expect([response.status, valuesOf(response.rawHeaders, "Allow")]).toEqual([405, ["GET, HEAD"]]);
      expectOwnAnswer(response, "Method Not Allowed", "Only GET and HEAD are possible at this path.");
      expectContractFields(response, { limit: 10, remaining: 10 });
      expect(upstream.hits()).toBe(0);
    },
  );

  test("more than the budget for refusals: 429 with Retry-After 1, until a second has passed", async () => {
    const { ask, clock } = await start({ refusals: { perSecond: 1, burst: 3 } });
    for (let i = 0; i < 3; i += 1) expect((await ask(request("/quota"))).status).toBe(200);
    const response = await ask(request("/quota"));
    expect([response.status, valuesOf(response.rawHeaders, "Retry-After")]).toEqual([429, ["1"]]);
    expectContractFields(response, { limit: 10, remaining: 10 });
    clock.advance(1000);
    expect((await ask(request("/quota"))).status).toBe(200);
  });

  test.each([
    ["/Quota", 404],
    ["/quota/", 404],
    ["//quota", 404],
    ["/./quota", 404],
    ["/%71uota", 404],
    ["/quota;a=b", 404],
    ["/quota/x", 404],
    ["/x/../quota", 404],
    ["/quota%00", 400],
  ])("another spelling is another path: %s", async (target, status) => {
    const { ask, upstream } = await start();
    const response = await ask(request(target));
    expect([response.status, response.body.includes("per-ip")]).toEqual([status, false]);
    expect(upstream.hits()).toBe(0);
  });

  test("a malformed request at the path is malformed", async () => {
    const { ask } = await start();
    const response = await ask(request("/quota", { fields: "Host: b\r\n" }));
    expect([response.status, response.body.includes("policies")]).toEqual([400, false]);
  });

  test("without the key, the path is one like any other", async () => {
    const { ask, gateway, settings } = await start();
    expect((await ask(request("/quota"))).status).toBe(200);
    expect(await gateway.reload(settings({ quota: { path: null } }))).toMatchObject({ ok: true });
    expect((await ask(request("/quota"))).status).toBe(404);
    expect(await gateway.reload(settings({ quota: { path: "/mine" } }))).toMatchObject({ ok: true });
    expect((await ask(request("/mine"))).status).toBe(200);
  });

  test("checks of an ingress know no such path: their 200 would admit the request", async () => {
    const { ask } = await stageDecision(cleanup, {}, { quota });
    const fields = "X-Original-Method: GET\r\nX-Original-URI: /quota\r\nX-Forwarded-For: 192.0.2.1\r\n";
    const { rawHeaders } = await ask("/auth-request", fields);
    expect(valuesOf(rawHeaders, "X-Headgate-Status")).toEqual(["404"]);
  });
});

describe("where it is", () => {
  test("comes before the routes, again and again on one connection", async () => {
    const { ask, gateway, upstream } = await start({ quota: { path: "/v2/quota" } });
    await ask(request("/v2/x"));
    const client = cleanup(new RawConnection(gateway.traffic.port));
    for (let i = 0; i < 3; i += 1) {
      expect(summary(toldBy(await client.ask(request("/v2/quota"))))).toEqual({ "per-ip": "open 1/10" });
    }
    expect((await ask(request("/v2/quota", { method: "POST" }))).status).toBe(405);
    expect(upstream.hits()).toBe(1);
    // Under the route, another spelling is counted and forwarded, as it would be without the key.
    expect((await ask(request("/v2/%71uota"))).status).toBe(200);
    expect(upstream.hits()).toBe(2);
    expect(summary(toldBy(await ask(request("/v2/quota"))))).toEqual({ "per-ip": "open 2/10" });
  });

  test("comes before `unmatched: proxy`, and has the budget for refusals there too", async () => {
    const { ask, upstream } = await start({ unmatched: "proxy", refusals: { perSecond: 1, burst: 2 } });
    for (let i = 0; i < 2; i += 1) toldBy(await ask(request("/quota")));
    expect((await ask(request("/quota"))).status).toBe(429);
    expect(upstream.hits()).toBe(0);
    expect((await ask(request("/elsewhere"))).status).toBe(200);
  });

  test("is below the base path, and in the absolute form too", async () => {
    const { ask } = await start({ basePath: "/finance" });
    toldBy(await ask(request("/finance/quota")));
    toldBy(await ask(request("http://api.test/finance/quota")));
    for (const target of ["/quota", "/Finance/quota"]) expect((await ask(request(target))).status).toBe(404);
  });

  test("over TLS with HTTP/1.1, and HTTP/2", async () => {
    const { overrides, ca } = tls({});
    const { gateway, upstream } = await start(overrides);
    const client = new Http2Client(gateway.traffic.port, ca, cleanup);
    expect((await client.ask()).status).toBe(200);
    const overHttp2 = await client.ask({ path: "/quota" });
    expect(summary(toldBy(overHttp2))).toEqual({ "per-ip": "open 1/10" });
    expectContractFields(overHttp2, { limit: 10, remaining: 9 }, (name) => name.toLowerCase());
    const head = await client.ask({ path: "/quota", method: "HEAD" });
    expect([head.status, head.body]).toEqual([200, ""]);
    const post = await client.ask({ path: "/quota", method: "POST", body: "x" });
    expect([post.status, valuesOf(post.rawHeaders, "allow")]).toEqual([405, ["GET, HEAD"]]);
    const connection = cleanup(new RawConnection(gateway.traffic.port, { tls: { ca } }));
    expect(summary(toldBy(await connection.ask(request("/quota"))))).toEqual({ "per-ip": "open 1/10" });
    expect(upstream.hits()).toBe(1);
  });

  test("with two threads, each tells what both have counted", async () => {
    const overrides = { workers: 2, quota, policies: [{ ...perIp, limit: 100 }], drain: { timeoutMs: 0 } };
    const { gateway } = await stageHttp(cleanup, undefined, overrides);
    // All to one thread would be a chance of 2^-31.
    const connections = Array.from({ length: 32 }, () => new RawConnection(gateway.traffic.port));
    for (const connection of connections) cleanup(() => connection.destroy());
    const askAll = (bytes: string) => {
      for (const connection of connections) connection.write(bytes);
      return Promise.all(connections.map((connection) => connection.read()));
    };
    await askAll(request("/v2/x"));
    for (const response of await askAll(request("/quota"))) {
      expect(summary(toldBy(response))).toEqual({ "per-ip": "open 32/100" });
    }
  });

  test.skipIf(skipRedis)(`with a store, each gateway tells what it knows${redisNeeded}`, async () => {
    const stage = await stageRules(cleanup);
    const [one, other] = [await stage.start({ quota }), await stage.start({ quota })];
    await stage.up(one, other);
    for (let i = 0; i < 4; i += 1) expect((await ask(one, request("/v2/x"))).status).toBe(200);
    const told = toldBy(await ask(one, request("/quota")));
    expect(told.isShared).toBe(true);
    expect(told.policies).toMatchObject([{ name: "per-ip", limit: 10, resetSeconds: expect.any(Number) }]);
    // What the store has granted to the gateway, and has not been spent, is left.
    expect(told.policies[0]).toMatchObject({ used: 4, remaining: 6 });
    // The other one learns it with its first request.
    expect((await ask(other, request("/v2/x"))).status).toBe(200);
    const [policy] = toldBy(await ask(other, request("/quota"))).policies;
    expect(Number(policy?.["used"])).toBeGreaterThanOrEqual(5);
  });
});

describe("browsers", () => {
  const page = "https://app.example";
  const cors = { origins: [page] };

  test("a page of a listed origin may read the answer", async () => {
    const { ask } = await start({ cors });
    const response = await ask(request("/quota", { fields: `Origin: ${page}\r\n` }));
    expect(response.status).toBe(200);
    expect(valuesOf(response.rawHeaders, "Access-Control-Allow-Origin")).toEqual([page]);
    expect(valuesOf(response.rawHeaders, "Vary")).toEqual(["Origin"]);
    expect(valuesOf(response.rawHeaders, "Access-Control-Expose-Headers")[0]).toContain("RateLimit-Remaining");
  });

  test("its preflight is answered here, so that it may send its token", async () => {
    const { ask, upstream } = await start({ cors });
    const preflight = `Origin: ${page}\r\nAccess-Control-Request-Method: GET\r\n`;
    const response = await ask(asking("/quota", null, "OPTIONS", preflight));
    expect(response.status).toBe(204);
    expect(valuesOf(response.rawHeaders, "Access-Control-Allow-Origin")).toEqual([page]);
    expect(valuesOf(response.rawHeaders, "Access-Control-Allow-Methods")).toEqual(["GET, HEAD"]);
    expect(valuesOf(response.rawHeaders, "Access-Control-Allow-Headers")).toEqual(["Authorization"]);
    const stranger = preflight.replace(page, "https://evil.example");
    expect((await ask(asking("/quota", null, "OPTIONS", stranger))).status).toBe(405);
    expect(upstream.hits()).toBe(0);
  });
});
