// What becomes of each version of HTTP/1 on each carrier: a higher minor version is answered as 1.1 (RFC 9110, 2.5), and
// HTTP/1.0 needs no Host (RFC 9112, 3.2).
import { fastify } from "fastify";
import { describe, expect, test } from "vitest";
import { headgate, serverOptions } from "../../src/fastify/index.ts";
import { stageDecision } from "../ext-auth/stage.ts";
import { startServing } from "../fastify/serving.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type StartServing, startTestGateway } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, stageHttp } from "../support/stage.ts";
import { startUpstream } from "../support/upstream.ts";
import { startWebSocketUpstream } from "../support/web-sockets.ts";

const cleanup = useCleanup();
const bearer = "Authorization: Bearer t\r\n";
const minors = [1, 2, 5, 9];

describe.each<[name: string, start: StartServing]>([
  ["the gateway", startTestGateway],
  ["the plugin", startServing],
])("%s", (_, start) => {
  test("HTTP/1.0 without a Host is served: the upstream gets its own authority and no X-Forwarded-Host", async () => {
    const upstream = cleanup(await startUpstream());
    const serving = cleanup(await start({ upstreamUrl: upstream.url }));
    const client = new RawConnection(serving.traffic.port);
    expect((await client.ask(`GET /v2/x HTTP/1.0\r\nX-Forwarded-Host: evil.test\r\n${bearer}\r\n`)).status).toBe(200);
    const { rawHeaders = [] } = upstream.received[0] ?? {};
    expect(valuesOf(rawHeaders, "Host")).toEqual([new URL(upstream.url).host]);
    expect(valuesOf(rawHeaders, "X-Forwarded-Host")).toEqual([]);
    expect(valuesOf(rawHeaders, "X-Forwarded-For")).toEqual(["127.0.0.1"]);
  });
});

test.each(minors)("HTTP/1.%i keeps its connection, as HTTP/1.1 does", async (minor) => {
  const { gateway: serving } = await stageHttp(cleanup);
  const client = cleanup(new RawConnection(serving.traffic.port));
  // Also with an Upgrade that Connection does not name.
  for (const fields of ["", "Upgrade: x\r\n", ""]) {
    client.write(request("/v2/x", { fields }).replace("HTTP/1.1", `HTTP/1.${minor}`));
    expect([fields, (await client.read()).status]).toEqual([fields, 200]);
  }
  const expecting = request("/v2/x", { method: "POST", fields: "Expect: 100-continue\r\nContent-Length: 2\r\n" });
  expect((await client.ask(expecting.replace("HTTP/1.1", `HTTP/1.${minor}`))).status).toBe(100);
  expect((await client.ask("hi")).status).toBe(200);
  expect(client.ending).toBeNull();
});

test("a trusted peer may tell the host of a request that has none", async () => {
  const clientAddress = { trustedProxies: ["127.0.0.0/8"] };
  const { upstream, connect } = await stageHttp(cleanup, undefined, { clientAddress });
  expect((await connect().ask(`GET /v2/x HTTP/1.0\r\nX-Forwarded-Host: shop.test\r\n${bearer}\r\n`)).status).toBe(200);
  expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "X-Forwarded-Host")).toEqual(["shop.test"]);
});

test.each(minors)("an Upgrade of HTTP/1.%i becomes a tunnel", async (minor) => {
  const { port } = await startWebSocketUpstream(cleanup, (socket) => socket.send("hello"));
  const gateway = cleanup(await startTestGateway({ upstreamUrl: `http://127.0.0.1:${port}`, overrides: {} }));
  const client = cleanup(new RawConnection(gateway.traffic.port));
  const fields =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  client.write(request("/v2/x", { fields }).replace("HTTP/1.1", `HTTP/1.${minor}`));
  expect((await client.readHead()).status).toBe(101);
});

test.each([
  ["1.0", 200],
  ["1.1", 200],
  ["1.2", 200],
  ["1.9", 200],
  ["0.9", 400],
  ["2.0", 400],
  ["3.1", 400],
])("a check over HTTP/%s is answered %i on both ways", async (version, status) => {
  const { connect } = await stageDecision(cleanup);
  const asked = "X-Original-Method: GET\r\nX-Original-URI: /v2/x\r\nX-Forwarded-For: 192.0.2.1\r\n";
  for (const fields of ["", "Upgrade: x\r\n"]) {
    const caller = connect().write(`GET /auth-request HTTP/${version}\r\nHost: a\r\n${fields}${asked}${bearer}\r\n`);
    expect([fields, (await caller.read()).status]).toEqual([fields, status]);
  }
});

test("the plugin leaves the parser of the app's server as the app has set it", async () => {
  const { http, ...options } = serverOptions();
  const app = fastify({ ...options, http: { ...http, insecureHTTPParser: true }, forceCloseConnections: true });
  await app.register(headgate, { routes: ["/v2/"], auth: { mode: "off" } });
  app.get("/v2/x", async () => "ok");
  await app.listen({ port: 0, host: "127.0.0.1" });
  cleanup(() => app.close());
  const address = app.server.address();
  const client = cleanup(new RawConnection(typeof address === "object" ? (address?.port ?? 0) : 0));
  client.write("GET /v2/x HTTP/1.1\r\nHost: a\r\nA: a\x01b\r\n\r\n");
  expect(await client.read()).toMatchObject({ status: 200, body: "ok" });
});
