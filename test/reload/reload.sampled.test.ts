// A reload of the real gateway under requests on open connections: the next request sees the new configuration, those
// in progress keep the old one, and no connection is closed.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { threadCounts } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";
import { startRawUpstream, startUpstream } from "../support/upstream.ts";
import { stageWebSockets, startWebSocketUpstream } from "../support/web-sockets.ts";

const cleanup = useCleanup();

/** Sooner than an idle connection is closed by itself. */
const soonMs = 2_000;
const nothing = {
  ...{ isConfigRead: true, changed: [], changes: [], loosened: [] },
  ...{ reset: [], hasStore: false, restart: [], errors: [], refused: [] },
};
const drain = { timeoutMs: 0 };
const settingsOf = (url: string, overrides: Overrides = {}) => testSettings(url, { drain, ...overrides });

async function statusOf(client: RawConnection, target: string, fields = ""): Promise<number> {
  return (await client.ask(request(target, { fields }))).status;
}

test("a reload with the same settings changes nothing, and keeps the connections to the upstream", async () => {
  const { upstream, gateway, connect } = await stageHttp(cleanup);
  const client = connect();
  expect(await statusOf(client, "/v2/x")).toBe(200);
  expect(await gateway.reload(settingsOf(upstream.url))).toEqual({ ok: true, ...nothing });
  expect(await upstreamConnections(gateway)).toEqual({ active: 0, idle: 1, waiting: 0 });
});

test("the next request on an open connection sees other routes, fields and checks of tokens", async () => {
  const { upstream, gateway, connect } = await stageHttp(cleanup);
  const client = connect();
  expect(await statusOf(client, "/v3/x")).toBe(404);
  const changed = { routes: ["/v3/"], fields: ["legacy"], resetFormat: "delta", auth: { mode: "off" } } as const;
  expect(await gateway.reload(settingsOf(upstream.url, changed))).toEqual({
    ok: true,
    ...nothing,
    changed: ["routes", "auth.mode", "fields", "resetFormat"],
    loosened: ["auth.mode"],
  });
  expect(await statusOf(client, "/v2/x")).toBe(404);
  const answer = await client.ask("GET /v3/x HTTP/1.1\r\nHost: a\r\n\r\n");
  expect(answer.status).toBe(200);
  expect(valuesOf(answer.rawHeaders, "RateLimit-Limit")).toEqual([]);
  expect(valuesOf(answer.rawHeaders, "X-RateLimit-Limit")).toEqual(["100"]);
  expect(valuesOf(answer.rawHeaders, "X-RateLimit-Reset")).toEqual([expect.stringMatching(/^(?:60|61)$/)]);
  expect(await upstreamConnections(gateway)).toMatchObject({ active: 0, waiting: 0 });
});

test("a proxy that is no longer trusted names no client any more, not even on a connection from before", async () => {
  const trusting = { clientAddress: { trustedProxies: ["127.0.0.1"] } };
  const { upstream, gateway, connect } = await stageHttp(cleanup, undefined, trusting);
  const client = connect();
  const fields = "X-Forwarded-For: 192.0.2.7\r\n";
  expect(await statusOf(client, "/v2/x", fields)).toBe(200);
  expect(gateway.logLines.at(-1)).toMatchObject({ msg: "request", client: "192.0.2.7" });
  const result = await gateway.reload(settingsOf(upstream.url));
  expect(result).toMatchObject({ ok: true, changed: ["clientAddress.trustedProxies"] });
  expect(await statusOf(client, "/v2/x", fields)).toBe(200);
  expect(gateway.logLines.at(-1)).toMatchObject({ msg: "request", client: "127.0.0.1" });
});

test("which headers are dropped, and which names are refused, follows on an open connection, over and over", async () => {
  const { upstream, gateway, connect } = await stageHttp(cleanup);
  const client = connect();
  const arrived = () => valuesOf(upstream.received.at(-1)?.rawHeaders ?? [], "Remote-User");
  const dropping = { clientAddress: { dropHeaders: ["remote-user"] } };
  for (const overrides of [{}, dropping, {}, dropping]) {
    const isDropped = overrides === dropping;
    await gateway.reload(settingsOf(upstream.url, overrides));
    for (let i = 0; i < 3; i += 1) {
      expect(await statusOf(client, "/v2/x", "Remote-User: evil\r\n")).toBe(200);
      expect(arrived()).toEqual(isDropped ? [] : ["evil"]);
    }
    // A refusal closes the connection.
    for (let i = 0; i < 2; i += 1) {
      const other = connect();
      expect(await statusOf(other, "/v2/x", "Remote_User: evil\r\n")).toBe(isDropped ? 400 : 200);
    }
  }
});

test("a head that passed is judged anew under other names, on the same connection", async () => {
  const { upstream, gateway, connect } = await stageHttp(cleanup);
  const client = connect();
  for (let i = 0; i < 3; i += 1) expect(await statusOf(client, "/v2/x", "Remote_User: evil\r\n")).toBe(200);
  const policy = slidingPolicy({ limit: 100, windowMs: 60_000 });
  const policies = [policy, { ...policy, name: "by-user", key: [{ kind: "header", name: "remote-user" }] as const }];
  expect(await gateway.reload(settingsOf(upstream.url, { policies }))).toMatchObject({ ok: true });
  expect(await statusOf(client, "/v2/x", "Remote_User: evil\r\n")).toBe(400);
});

test("an old upstream finishes its requests, gets no new one, and its idle connections are closed", async () => {
  const held: (() => void)[] = [];
  const {
    upstream: old,
    gateway,
    connect,
  } = await stageRaw(cleanup, (socket, data) => {
    if (data.includes("/v2/slow")) held.push(() => socket.write(response("old")));
    else socket.write(response("old"));
  });
  const next = cleanup(await startUpstream((_req, res) => res.end("new")));
  const [slow, idle, later] = [connect(), connect(), connect()];
  slow.write(request("/v2/slow"));
  await eventually("the upstream has the request", () => held.length === 1);
  expect(await statusOf(idle, "/v2/x")).toBe(200);
  expect(old.sockets.size).toBe(2);

  expect(await gateway.reload(settingsOf(next.url))).toMatchObject({ ok: true, changed: ["upstream.url"] });
  await eventually("the idle connection is closed", () => old.sockets.size === 1, soonMs);
  expect((await later.ask(request("/v2/x"))).body).toBe("new");
  expect(await upstreamConnections(gateway)).toEqual({ active: 1, idle: 1, waiting: 0 });
  held[0]?.();
  expect((await slow.read()).body).toBe("old");
  await eventually("the last connection is closed", () => old.sockets.size === 0, soonMs);
  expect(await upstreamConnections(gateway)).toEqual({ active: 0, idle: 1, waiting: 0 });
  expect((await slow.ask(request("/v2/slow"))).body).toBe("new");
});

test("a request that waits for a connection to the old upstream gets one", async () => {
  const held: (() => void)[] = [];
  const {
    upstream: old,
    gateway,
    connect,
  } = await stageRaw(cleanup, (socket) => held.push(() => socket.write(response("old"))), {
    upstream: { maxConnections: 1 },
  });
  const next = cleanup(await startRawUpstream((socket) => socket.write(response("new"))));
  const [first, waiting] = [connect(), connect()];
  for (const client of [first, waiting]) client.write(request("/v2/x"));
  await eventually("one waits", async () => (await upstreamConnections(gateway)).waiting === 1);
  await gateway.reload(settingsOf(next.url, { upstream: { maxConnections: 1 } }));
  held[0]?.();
  await eventually("the other one is sent", () => held.length === 2);
  held[1]?.();
  for (const client of [first, waiting]) expect((await client.read()).body).toBe("old");
  await eventually("the old upstream is left", () => old.sockets.size === 0);
});

test("a tunnel to the old upstream goes on, and is counted until it ends", async () => {
  const { gateway, open } = await stageWebSockets(cleanup, (socket) =>
    socket.on("message", (data) => socket.send(data)),
  );
  const tunnel = await open();
  const next = await startWebSocketUpstream(cleanup, () => {});
  const settings = testSettings(`http://127.0.0.1:${next.port}`, { drain });
  expect(await gateway.reload(settings)).toMatchObject({ ok: true });
  const echoed = new Promise((resolve) => tunnel.once("message", (data) => resolve(String(data))));
  tunnel.send("still there");
  expect(await echoed).toBe("still there");
  expect(await metric(gateway, 'headgate_tunnels{state="open"}')).toBe(1);
  await open();
  expect(next.sockets).toHaveLength(1);
  tunnel.close();
  await eventually("one is left", async () => (await metric(gateway, 'headgate_tunnels{state="open"}')) === 1);
});

test("what needs a restart is listed and stays as it is, and the rest is applied", async () => {
  const { upstream, gateway, connect } = await stageHttp(cleanup);
  const client = connect();
  const wanted = settingsOf(upstream.url, {
    listen: { port: 1, proxyProtocol: true },
    admin: { host: "::1" },
    maxBodyBytes: 1,
  });
  const counters = { ...wanted.counters, memoryBytes: 2 * wanted.counters.memoryBytes };
  const http = { host: "127.0.0.1", port: 0, maxConnections: 1 };
  const extAuth = { ...wanted.extAuth, http, trustedCallers: ["127.0.0.1"] };
  expect(await gateway.reload({ ...wanted, counters, extAuth })).toEqual({
    ok: true,
    ...nothing,
    changed: expect.arrayContaining(["extAuth.trustedCallers", "maxBodyBytes"]),
    restart: ["listen.port", "listen.proxyProtocol", "admin.host", "extAuth.http.enabled", "counters.memory"],
  });
  client.write(request("/v2/x", { method: "POST", fields: "Content-Length: 2\r\n", body: "12" }));
  expect((await client.read()).status).toBe(413);
  const freeBytes = await metric(gateway, 'headgate_counters_memory_bytes{state="free"}');
  expect(freeBytes).toBeGreaterThan(0);
  expect(freeBytes).toBeLessThan(wanted.counters.memoryBytes);
});

test("a file that cannot be used is an answer, and nothing changes", async () => {
  const { upstream, gateway, connect } = await stageHttp(cleanup);
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens");
  const tokens = settingsOf(upstream.url, { routes: ["/v3/"], auth: { mode: "tokens", tokensFile } });
  expect(await gateway.reload(tokens)).toEqual({
    ...nothing,
    ok: false,
    errors: ["auth.tokensFile: cannot be read: ENOENT"],
  });
  const client = connect();
  expect(await statusOf(client, "/v2/x")).toBe(200);
  writeFileSync(tokensFile, `${digestOf("another-token")}\n`);
  expect(await gateway.reload(tokens)).toMatchObject({ ok: true, changed: ["routes", "auth.mode", "auth.tokensFile"] });
  expect(await statusOf(client, "/v3/x")).toBe(401);
});

test("bounds and timeouts hold for new connections", async () => {
  const { upstream, gateway, connect } = await stageHttp(cleanup, undefined, {
    listen: { maxRequestsPerConnection: 1 },
  });
  expect(await statusOf(connect(), "/v2/x")).toBe(200);
  const old = connect();
  await eventually("it is accepted", async () => (await metric(gateway, "headgate_client_connections")) >= 1);
  await gateway.reload(settingsOf(upstream.url, { listen: { maxConnectionsPerPeer: 1 }, timeouts: { headMs: 200 } }));
  expect(await statusOf(connect(), "/v2/x")).toBe(503);
  old.destroy();
  await eventually("it is gone", async () => (await metric(gateway, "headgate_client_connections")) === 0);
  expect((await connect().ask("GET /v2/x HTTP/1.1\r\n")).status).toBe(408);
});

test("lines of requests, the level of the log and the time to drain are those of the last reload", async () => {
  const { upstream, gateway, connect } = await stageHttp(cleanup, undefined, { log: { level: "debug" } });
  const client = connect();
  const lines = () => gateway.logLines.filter(({ msg }) => msg === "request").length;
  expect([await statusOf(client, "/v2/x"), lines()]).toEqual([200, 1]);
  const quiet = { log: { access: false, level: "info" }, drain: { timeoutMs: 100 } } as const;
  expect(await gateway.reload(testSettings(upstream.url, quiet))).toMatchObject({
    changed: expect.arrayContaining(["drain.timeout", "log.access", "log.level"]),
  });
  expect([await statusOf(client, "/v2/x"), lines()]).toEqual([200, 1]);
  const warnings = { log: { access: true, level: "warn" }, drain: { timeoutMs: 100 } } as const;
  await gateway.reload(testSettings(upstream.url, warnings));
  expect([await statusOf(client, "/v2/x"), lines()]).toEqual([200, 1]);
  await gateway.reload(testSettings(upstream.url, { ...warnings, log: { level: "info" } }));
  expect([await statusOf(client, "/v2/x"), lines()]).toEqual([200, 2]);
});

test.each(threadCounts)(
  "with %i threads, the time of all lines is written as the last reload says",
  async (workers) => {
    const { upstream, gateway, connect } = await stageHttp(cleanup, undefined, { workers, log: { time: "iso" } });
    /** Of the lines since the last call, when each thread has logged a request. */
    const forms = async () => {
      const seen = gateway.logLines.length;
      for (let i = 0; i < 16; i += 1) await statusOf(connect(), "/v2/x");
      await fetch(`${gateway.adminUrl}/metrics`);
      const requests = () => gateway.logLines.slice(seen).filter(({ msg }) => msg === "request").length;
      await expect.poll(requests).toBe(16);
      return [...new Set(gateway.logLines.slice(seen).map(({ time }) => typeof time))];
    };
    const [first] = gateway.logLines;
    expect(first?.["time"]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(await forms()).toEqual(["string"]);
    const next = testSettings(upstream.url, { workers, log: { time: "unix" }, drain: { timeoutMs: 0 } });
    expect(await gateway.reload(next)).toMatchObject({ changed: ["log.time"] });
    expect(await forms()).toEqual(["number"]);
  },
);

test("the next request on an open connection may switch to other protocols", async () => {
  const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  const { upstream, gateway, connect } = await stageRaw(
    cleanup,
    (socket, data) => socket.write(data.includes("Upgrade: websocket") ? switching : response("plain")),
    { upgrade: { protocols: [] } },
  );
  const client = connect();
  const fields = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
  expect(await statusOf(connect(), "/v2/x", fields)).toBe(200);
  expect(await statusOf(client, "/v2/x")).toBe(200);
  expect(await gateway.reload(settingsOf(upstream.url))).toMatchObject({ changed: ["upgrade.protocols"] });
  expect(await statusOf(client, "/v2/x", fields)).toBe(101);
});

test("reloads run one at a time, and of those that wait the last one wins", async () => {
  const { upstream, gateway } = await stageHttp(cleanup);
  const sizes = [1, 2, 3].map((maxBodyBytes) => gateway.reload(settingsOf(upstream.url, { maxBodyBytes })));
  const [first, second, third] = await Promise.all(sizes);
  expect([first, second]).toEqual([third, third]);
  expect(third).toMatchObject({ ok: true, changed: ["maxBodyBytes"] });
  expect(await gateway.reload(settingsOf(upstream.url, { maxBodyBytes: 3 }))).toMatchObject({ changed: [] });
});

test("a gateway that drains is not reloaded", async () => {
  const { upstream, gateway } = await stageHttp(cleanup);
  const drained = gateway.drain();
  expect(await gateway.reload(settingsOf(upstream.url, { maxBodyBytes: 1 }))).toMatchObject({ ok: false });
  await drained;
});
