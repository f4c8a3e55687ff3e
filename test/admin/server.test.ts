// The admin listener on real sockets.
import { connect } from "node:net";
import { expect, test } from "vitest";
import type { Admin, AdminOptions } from "../../src/admin/server.ts";
import { sharedRulesStates, storeStates } from "../../src/core/store-link.ts";
import { useCleanup } from "../support/cleanup.ts";
import { openAdmin, ready } from "./api-stage.ts";

const cleanup = useCleanup();

async function start(changes: Partial<AdminOptions> = {}): Promise<Admin & { url: string }> {
  const metrics: AdminOptions["metrics"] = async (openMetrics) => ({
    contentType: openMetrics ? "application/openmetrics-text" : "text/plain",
    body: "x 1\n",
  });
  const admin = await openAdmin(cleanup, { metrics, ...changes });
  return { ...admin, url: `http://${admin.host}:${admin.port}` };
}

/** Everything the listener says to these bytes until it closes the connection. */
async function raw(admin: Admin, bytes: string): Promise<string> {
  const socket = connect(admin.port, admin.host);
  socket.write(bytes);
  let text = "";
  for await (const chunk of socket) text += chunk;
  return text;
}

test("port 0 picks a free one and tells which", async () => {
  const [a, b] = [await start(), await start()];
  expect(a.port).toBeGreaterThan(0);
  expect(a.port).not.toBe(b.port);
  expect(a.host).toBe("127.0.0.1");
});

test("a port in use rejects with the system's own error", async () => {
  const { port } = await start();
  await expect(start({ port })).rejects.toMatchObject({ code: "EADDRINUSE", port });
});

test("GET /metrics passes the negotiated format on", async () => {
  const { url } = await start();
  const plain = await fetch(`${url}/metrics?whatever=1`);
  expect([plain.status, plain.headers.get("content-type"), await plain.text()]).toEqual([200, "text/plain", "x 1\n"]);
  expect(plain.headers.get("cache-control")).toBe("no-store");
  const accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
  const openMetrics = await fetch(`${url}/metrics`, { headers: { accept } });
  expect(openMetrics.headers.get("content-type")).toBe("application/openmetrics-text");
});

test.each(["/metrics", "/livez", "/readyz"])("HEAD %s has the fields of GET and no body", async (path) => {
  const { url } = await start();
  const [get, head] = [await fetch(url + path), await fetch(url + path, { method: "HEAD" })];
  expect(head.status).toBe(200);
  expect(await head.text()).toBe("");
  for (const field of ["content-type", "content-length", "cache-control"]) {
    expect(head.headers.get(field)).toBe(get.headers.get(field));
  }
});

test.each([
  ["ready", 200],
  ["starting", 503],
  ["draining", 503],
] as const)("when %s, /readyz is %i and /livez is 200", async (status, expected) => {
  const { url } = await start({ health: () => ({ ...ready, status, upstream: { state: "unknown", reason: null } }) });
  const readyz = await fetch(`${url}/readyz`);
  expect(readyz.status).toBe(expected);
  expect(await readyz.json()).toEqual({ status, upstream: { state: "unknown", reason: null } });
  const livez = await fetch(`${url}/livez`);
  expect([livez.status, await livez.json()]).toEqual([200, { status: "alive" }]);
});

test("an upstream that is down is shown, does not make it unready, and nothing else of it is told", async () => {
  const upstream = { state: "down", reason: "refused", address: "10.0.0.1:3000" } as const;
  const { url } = await start({ health: () => ({ ...ready, upstream }) });
  const readyz = await fetch(`${url}/readyz`);
  expect(readyz.status).toBe(200);
  expect(await readyz.json()).toEqual({ status: "ready", upstream: { state: "down", reason: "refused" } });
});

test.each(storeStates)("a store that is %s is shown and does not change readiness", async (state) => {
  const shards = { up: 2, slow: 0, away: 0, returned: 0, [state]: 1 };
  const store = { state, shards, replicas: 3, sinceMs: 7, password: "a-secret" };
  const { url } = await start({ health: () => ({ ...ready, store }) });
  const readyz = await fetch(`${url}/readyz`);
  expect(readyz.status).toBe(200);
  const shown = { status: "ready", upstream: ready.upstream };
  expect(await readyz.json()).toEqual({ ...shown, store: { state, shards, replicas: 3 } });
});

test.each(sharedRulesStates)("rules that are %s are shown and do not change readiness", async (state) => {
  const { url } = await start({ health: () => ({ ...ready, rules: { state } }) });
  const readyz = await fetch(`${url}/readyz`);
  expect(readyz.status).toBe(200);
  expect(await readyz.json()).toEqual({ status: "ready", upstream: ready.upstream, rules: { state } });
});

test.each(["/", "/metrics/", "/readyz/x", "/v2/me", "/METRICS", "//metrics"])("GET %s is 404", async (path) => {
  const { url } = await start();
  const response = await fetch(url + path);
  expect(response.status).toBe(404);
  expect(response.headers.get("cache-control")).toBe("no-store");
  expect(await response.json()).toEqual({
    message: "Not Found",
    errors: [{ errMsg: "There is nothing at this path." }],
  });
});

test.each(["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "QUERY"])(
  "%s /metrics is 405 with Allow",
  async (method) => {
    const { url } = await start();
    const response = await fetch(`${url}/metrics`, { method });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    expect(await response.json()).toMatchObject({ message: "Method Not Allowed" });
  },
);

test("a body of whatever type and size is not waited for", async () => {
  const admin = await start();
  const head =
    "POST /readyz HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-unknown\r\nContent-Length: 1000000\r\n\r\n";
  const answer = await raw(admin, `${head}only this`);
  expect(answer).toMatch(/^HTTP\/1\.1 405 /);
  expect(answer.toLowerCase()).toContain("\r\nconnection: close\r\n");
});

test("a scrape that fails is 500 without the reason, and the reason is reported", async () => {
  const reported: Error[] = [];
  const failure = new Error("token abc at /srv/secret");
  const { url } = await start({ metrics: () => Promise.reject(failure), onError: (error) => reported.push(error) });
  const response = await fetch(`${url}/metrics`);
  expect(response.status).toBe(500);
  expect(await response.json()).toEqual({
    message: "Internal Server Error",
    errors: [{ errMsg: "The figures could not be collected." }],
  });
  expect(reported).toEqual([failure]);
  expect((await fetch(`${url}/livez`)).status).toBe(200);
});

test.each([
  ["no HTTP", "nonsense\r\n\r\n", 400],
  ["no Host", "GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n", 400],
  ["a path that cannot be decoded", "GET /%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400],
  ["an enormous head", `GET /livez HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(17_000)}\r\n\r\n`, 431],
])("%s is refused in the same format, uncached", async (_, bytes, status) => {
  const answer = await raw(await start(), bytes);
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  expect(head.toLowerCase()).toContain("cache-control: no-store");
  expect(Object.keys(JSON.parse(body))).toEqual(["message", "errors"]);
});

test("close ends idle and busy connections at once", async () => {
  const asked = Promise.withResolvers<void>();
  const metrics = () => {
    asked.resolve();
    return new Promise<never>(() => {});
  };
  const admin = await start({ metrics });
  await fetch(`${admin.url}/livez`);
  const hanging = fetch(`${admin.url}/metrics`);
  hanging.catch(() => {});
  await asked.promise;
  await admin.close();
  await expect(hanging).rejects.toThrow();
  await expect(fetch(`${admin.url}/livez`)).rejects.toThrow();
});

test("the cookies that a browser keeps for all servers on localhost are no enormous head", async () => {
  const cookies = `Cookie: ${"x".repeat(15_000)}\r\n`;
  const answer = await raw(await start(), `GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${cookies}\r\n`);
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
});
