// Rules in the real gateway, with one thread and with two: each carrier of requests feels them, until they end.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BroadcastChannel } from "node:worker_threads";
import { describe, expect, test, vi } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import type { RuleInput } from "../../src/core/rules.ts";
import { call as callAdmin, readToken } from "../admin/api-stage.ts";
import { digestOf } from "../auth/digest.ts";
import { call, openClient } from "../ext-auth/grpc/client.ts";
import { check, shouldRateLimit } from "../ext-auth/grpc/protocol.ts";
import { checkRequest, rateLimitRequest } from "../ext-auth/grpc/requests.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { type FramedResponse, RawConnection } from "../support/raw-connection.ts";
import { inFull, threadCounts } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";
import { startUpstream } from "../support/upstream.ts";
import { stageWebSockets } from "../support/web-sockets.ts";
import { type Fault, faultChannel } from "../workers/faulty-thread.ts";

const cleanup = useCleanup();
const tls = useTls();
const threadEntry = new URL("../workers/faulty-thread.ts", import.meta.url);
const writer = { name: "ops", address: null };
const anyway = { expectedRevision: null, force: true };
const own: RuleInput = { id: "own", client: "127.0.0.1", action: "block", for: "1h" };
const blockedBody = '{"message":"Forbidden","errors":[{"errMsg":"Access is not allowed."}]}';
const perIp = slidingPolicy({ limit: 100, windowMs: 60_000 });

async function start(overrides: Overrides, clock?: FakeClock) {
  const upstream = cleanup(await startUpstream());
  const options = { upstreamUrl: upstream.url, overrides, threadEntry };
  const gateway = cleanup(await startTestGateway({ ...options, ...(clock === undefined ? {} : { clock }) }));
  return { gateway, upstream, settings: testSettings(upstream.url, overrides) };
}

/** So many that with two threads each has some: all to one would be a chance of 2^-31. */
function connect(gateway: TestGateway, count = 32): RawConnection[] {
  return Array.from({ length: count }, () => {
    return cleanup(new RawConnection(gateway.traffic.port));
  });
}

/** The answers to one request on each connection. */
async function askAll(connections: readonly RawConnection[], bytes = request("/v2/x")): Promise<FramedResponse[]> {
  for (const connection of connections) connection.write(bytes);
  return Promise.all(connections.map((connection) => connection.read()));
}

async function statuses(connections: readonly RawConnection[], bytes?: string): Promise<number[]> {
  return [...new Set((await askAll(connections, bytes)).map(({ status }) => status))];
}

const set = (gateway: TestGateway, input: Partial<RuleInput> = {}) =>
  gateway.rules.put({ ...own, ...input }, writer, anyway);

const lines = ({ logLines }: TestGateway, msg: string) => logLines.filter((line) => line["msg"] === msg);

describe.each(threadCounts)("with %i threads", (workers) => {
  const unlimited = { workers, policies: [{ ...perIp, limit: 1_000_000 }] };

  test("a rule is felt by the next request on every connection, also by a head that is remembered, until it is removed", async () => {
    const { gateway, upstream } = await start(unlimited);
    const connections = connect(gateway);
    for (let i = 0; i < 3; i += 1) expect(await statuses(connections)).toEqual([200]);
    expect(await set(gateway)).toMatchObject({ ok: true });
    expect(gateway.rules.survivesRestart("own")).toBe(false);
    const hits = upstream.hits();
    const [answer, ...others] = await askAll(connections);
    expect([answer, ...others].map((each) => each?.status)).toEqual(Array(32).fill(403));
    expect(answer?.body).toBe(blockedBody);
    const field = (name: string) => valuesOf(answer?.rawHeaders ?? [], name)[0];
    expect([field("ratelimit-limit"), field("ratelimit-remaining")]).toEqual(["1000000", "999904"]);
    expect([field("retry-after"), field("www-authenticate"), field("cache-control")]).toEqual([
      undefined,
      undefined,
      "no-store",
    ]);
    expect(await statuses(connections)).toEqual([403]);
    expect(upstream.hits()).toBe(hits);
    expect(await metric(gateway, 'headgate_refusals_total{reason="blocked"}')).toBe(64);
    // A thread keeps its lines for a moment.
    const last = () => lines(gateway, "request").at(-1);
    await expect.poll(last).toMatchObject({ status: 403, problem: "blocked", rule: "own" });
    expect(lines(gateway, "request")[0]).not.toHaveProperty("rule");
    expect(await gateway.rules.remove("own", writer, anyway)).toMatchObject({ ok: true });
    expect(await statuses(connections)).toEqual([200]);
    expect(lines(gateway, "rule set")).toMatchObject([{ id: "own", about: { client: "127.0.0.1" }, by: "ops" }]);
    expect(lines(gateway, "rule removed")).toHaveLength(1);
  });

  test("a rule ends by itself, and a reload before that changes nothing of it", async () => {
    holdTimers(cleanup);
    const clock = new FakeClock();
    const { gateway, settings } = await start(unlimited, clock);
    const connections = connect(gateway);
    // Both clocks together, or the timer of a rule that is about to end would fire each millisecond.
    const pass = (ms: number): void => {
      clock.advance(ms);
      vi.advanceTimersByTime(ms);
    };
    await set(gateway, { for: "1m" });
    expect(await statuses(connections)).toEqual([403]);
    const policies: Policy[] = [{ ...perIp, limit: 2_000_000, window: 1 } as Policy];
    expect(await gateway.reload({ ...settings, policies, routes: ["/v2/", "/v3/"] })).toMatchObject({ ok: true });
    const [answer] = await askAll(connections.slice(0, 1));
    expect(answer?.status).toBe(403);
    expect(await statuses(connect(gateway), request("/v3/x"))).toEqual([403]);
    pass(30_000);
    pass(29_999);
    expect(await statuses(connect(gateway))).toEqual([403]);
    clock.advance(1);
    vi.advanceTimersByTime(30_000);
    await expect.poll(() => lines(gateway, "rule ended")).toMatchObject([{ id: "own", setBy: "ops", by: null }]);
    expect(await statuses(connect(gateway))).toEqual([200]);
  });

  test("a limit is the one that is applied and shown, and an exempt client has none", async () => {
    const { gateway } = await start({ workers, policies: [perIp], fields: ["standard", "structured"] });
    await set(gateway, { action: "limit", limit: 3 });
    const fields = async () => {
      const [answer] = await askAll(connect(gateway, 1));
      const names = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-policy"];
      return [answer?.status, ...names.map((name) => valuesOf(answer?.rawHeaders ?? [], name)[0])];
    };
    expect(await fields()).toEqual([200, "3", "2", '"per-ip";q=3;w=60']);
    expect([await fields(), await fields(), await fields()].map(([status]) => status)).toEqual([200, 200, 429]);
    await set(gateway, { id: "good", action: "exempt" });
    expect((await fields())[0]).toBe(200);
    await gateway.rules.remove("good", writer, anyway);
    expect(await fields()).toEqual([429, "3", "0", '"per-ip";q=3;w=60']);
    await gateway.rules.remove("own", writer, anyway);
    expect(await fields()).toEqual([200, "100", "96", '"per-ip";q=100;w=60']);
  });

  test("HEAD, OPTIONS *, an upgrade, and paths outside of all routes are refused as well", async () => {
    const { gateway } = await start(unlimited);
    await set(gateway);
    const ask = async (bytes: string, method = "GET") => {
      const [connection] = connect(gateway, 1);
      connection?.write(bytes);
      const answer = await connection?.read({ method });
      return [answer?.status, answer?.body];
    };
    expect(await ask(request("/v2/x", { method: "HEAD" }), "HEAD")).toEqual([403, ""]);
    expect(await ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")).toEqual([403, blockedBody]);
    expect(await ask(request("/health"))).toEqual([403, blockedBody]);
    expect(await ask(request("/v1/%2e%2e/x"))).toEqual([403, blockedBody]);
    const upgrade =
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n";
    expect(await ask(request("/v2/live", { fields: upgrade }))).toEqual([403, blockedBody]);
  });

  test("a listed token is blocked after its check, wherever it comes from", async () => {
    const folder = scratchFolder(cleanup);
    const tokensFile = join(folder, "tokens.txt");
    writeFileSync(tokensFile, `${digestOf("secret-token")} # alice\n${digestOf("other-token")} # bob\n`);
    const adminTokens = join(folder, "admin.txt");
    writeFileSync(adminTokens, `${digestOf(readToken)} read # dashboard\n`);
    const { gateway } = await start({
      ...{ workers, policies: [perIp], auth: { mode: "tokens", tokensFile } },
      admin: { tokensFile: adminTokens },
    });
    expect(await set(gateway, { client: undefined, token: "alice" })).toMatchObject({ ok: true });
    const shown = await callAdmin(gateway.admin.port, "GET", "/api/rules/own", { token: readToken });
    expect(shown.json).toMatchObject({ token: "alice", warnings: [] });
    const connections = connect(gateway);
    const answers = await askAll(connections);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([403]));
    const remaining = answers.map(({ rawHeaders }) => Number(valuesOf(rawHeaders, "ratelimit-remaining")[0]));
    expect(Math.min(...remaining)).toBe(100 - 32);
    const bob = request("/v2/x").replace("secret-token", "other-token");
    expect(await statuses(connections, bob)).toEqual([200]);
    expect(lines(gateway, "rule set")).toMatchObject([{ about: { token: "alice" } }]);
  });
});

test.each(inFull([2]))("of %i threads one that replaces another has all rules before it serves", async (workers) => {
  const { gateway } = await start({ workers, policies: [{ ...perIp, limit: 1_000_000 }] });
  for (let i = 0; i < 600; i += 1) await set(gateway, { id: `r${i}`, client: `10.0.${i >> 8}.${i & 255}` });
  await set(gateway);
  const channel = new BroadcastChannel(faultChannel);
  channel.postMessage({ thread: 2, on: null, how: "exit" } satisfies Fault);
  channel.close();
  await expect.poll(() => lines(gateway, "worker started").length).toBe(1);
  expect(await statuses(connect(gateway, 64))).toEqual([403]);
  await gateway.rules.remove("own", writer, anyway);
  expect(await statuses(connect(gateway, 64))).toEqual([200]);
});

test("a client behind a trusted proxy is blocked alone, over HTTP/2 as well", async () => {
  const { ca, overrides } = tls({ clientAddress: { trustedProxies: ["127.0.0.1"] } });
  const { gateway } = await start(overrides);
  await set(gateway, { client: "192.0.2.0/24" });
  const client = new Http2Client(gateway.traffic.port, ca, cleanup);
  const ask = async (address: string) => {
    const { status, body } = await client.ask({ fields: { "x-forwarded-for": address } });
    return [status, status === 403 ? body : ""];
  };
  expect(await ask("192.0.2.7")).toEqual([403, blockedBody]);
  expect(await ask("192.0.3.7")).toEqual([200, ""]);
  const blockProxy = await gateway.rules.put({ ...own, client: "127.0.0.0/8" }, writer, { ...anyway, force: false });
  expect(blockProxy).toMatchObject({ ok: false, reason: "needs_force" });
});

test("a rule about a network that a reload makes a part of one client no longer holds", async () => {
  const clientAddress = { trustedProxies: ["127.0.0.1"] };
  const { gateway, settings } = await start({ clientAddress });
  await set(gateway, { client: "2001:db8::/64" });
  const ask = async (address: string): Promise<number> => {
    const fields = `X-Forwarded-For: ${address}\r\n`;
    return (await statuses(connect(gateway, 1), request("/v2/x", { fields })))[0] ?? 0;
  };
  expect([await ask("2001:db8::1"), await ask("2001:db8:0:9::1")]).toEqual([403, 200]);
  const wider = { ...settings, clientAddress: { ...settings.clientAddress, ipv6Prefix: 48 } };
  expect(await gateway.reload(wider)).toMatchObject({ ok: true });
  expect([await ask("2001:db8::1"), await ask("2001:db8:0:9::1")]).toEqual([200, 200]);
});

test("a tunnel that is open stays open, and its client gets no other", async () => {
  const staged = await stageWebSockets(cleanup, (socket) => socket.on("message", (data) => socket.send(data)));
  const socket = await staged.open();
  await set(staged.gateway);
  await expect(staged.open()).rejects.toThrow("403");
  const echoed = new Promise((resolve) => socket.once("message", (data) => resolve(String(data))));
  socket.send("still here");
  expect(await echoed).toBe("still here");
});

describe("the checks of an ingress", () => {
  const address = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const extAuth = { http: address, grpc: address, trustedCallers: ["127.0.0.1"] };

  test("say that a client is blocked, over HTTP and gRPC", async () => {
    const { gateway } = await start({ extAuth });
    await set(gateway, { client: "192.0.2.0/24" });
    const overHttp = async (client: string) => {
      const headers = {
        ...{ "x-original-method": "GET", "x-original-uri": "/v2/x", "x-original-url": "http://a/v2/x" },
        ...{ "x-forwarded-for": client, authorization: "Bearer abc" },
      };
      const { status } = await fetch(`${gateway.extAuthUrl}/auth-request`, { headers });
      return status;
    };
    expect([await overHttp("192.0.2.7"), await overHttp("192.0.3.7")]).toEqual([403, 200]);
    const grpc = openClient(cleanup, gateway.grpc?.port ?? 0);
    const denied = await call(grpc, check, checkRequest({}, "192.0.2.7"));
    expect(denied).toMatchObject({
      message: { denied_response: { status: { code: 403 }, body: blockedBody } },
    });
  });

  test("of a quota alone are over the limit for a blocked client, charge nothing, and know limits and exemptions", async () => {
    const { gateway } = await start({ extAuth, policies: [perIp] });
    await set(gateway, { client: "192.0.2.7" });
    await set(gateway, { id: "less", client: "192.0.2.8", action: "limit", limit: 2 });
    await set(gateway, { id: "none", client: "192.0.2.9", action: "exempt" });
    const grpc = openClient(cleanup, gateway.grpc?.port ?? 0);
    const ask = async (remote_address: string, hits_addend = 1) => {
      const reply = await call(grpc, shouldRateLimit, rateLimitRequest({ remote_address }, { hits_addend }));
      const { statuses: all } = reply.message as {
        statuses: { code: string; current_limit: { requests_per_unit: number }; limit_remaining: number }[];
      };
      return all.map(({ code, current_limit, limit_remaining }) => [
        code,
        current_limit.requests_per_unit,
        limit_remaining,
      ]);
    };
    expect(await ask("192.0.2.7")).toEqual([["OVER_LIMIT", 100, 100]]);
    expect(await ask("192.0.2.8", 2)).toEqual([["OK", 2, 0]]);
    expect(await ask("192.0.2.8")).toEqual([["OVER_LIMIT", 2, 0]]);
    expect(await ask("192.0.2.9", 500)).toEqual([["OK", 100, 100]]);
    await gateway.rules.remove("own", writer, anyway);
    expect(await ask("192.0.2.7")).toEqual([["OK", 100, 99]]);
  });
});
