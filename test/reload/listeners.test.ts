// What listeners take from a reload: TLS and HTTP/2, and who may ask for checks. Open connections go on.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import { digestOf } from "../auth/digest.ts";
import { call } from "../ext-auth/grpc/client.ts";
import { check } from "../ext-auth/grpc/protocol.ts";
import { checkRequest } from "../ext-auth/grpc/requests.ts";
import { stageGrpc } from "../ext-auth/grpc/stage.ts";
import { stageDecision, token } from "../ext-auth/stage.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { valuesOf } from "../support/raw-client.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request, stageHttp } from "../support/stage.ts";
import { deadUrl } from "../support/unavailable.ts";

const cleanup = useCleanup();
const drain = { timeoutMs: 0 };

test("another certificate, authority of clients or offer of HTTP/2 holds for new connections, and old ones go on", async () => {
  const authority = new Authority(cleanup);
  const [first, second] = [authority.issue(), authority.issue()];
  const oldTls = { cert: first.certFile, key: first.keyFile, clientCa: null, http2: true };
  const { upstream, gateway, connect } = await stageHttp(cleanup, undefined, { listen: { tls: oldTls } });
  const reload = (overrides: Overrides) => gateway.reload(testSettings(upstream.url, { drain, ...overrides }));
  const open = (options: object = {}) =>
    connect({ tls: { ca: authority.cert, ALPNProtocols: ["h2", "http/1.1"], ...options } });
  const serialOf = ({ socket }: ReturnType<typeof open>) => (socket as TLSSocket).getPeerCertificate().subject?.CN;
  const statusOf = async (client: ReturnType<typeof open>): Promise<number> => {
    return (await client.ask(request("/v2/x"))).status;
  };
  const http1 = open({ ALPNProtocols: ["http/1.1"] });
  const http2 = new Http2Client(gateway.traffic.port, authority.cert, cleanup);
  expect([await statusOf(http1), (await http2.ask()).status]).toEqual([200, 200]);

  const tls = { cert: second.certFile, key: second.keyFile, clientCa: authority.certFile, http2: false };
  expect(await reload({ listen: { tls }, routes: ["/v2/", "/v3/"] })).toMatchObject({
    ok: true,
    changed: ["listen.tls.cert", "listen.tls.key", "listen.tls.clientCa", "listen.tls.http2", "routes"],
  });
  expect([await statusOf(http1), (await http2.ask({ path: "/v3/x" })).status]).toEqual([200, 200]);
  const known = open({ cert: first.cert, key: first.key });
  expect(await statusOf(known)).toBe(200);
  expect((known.socket as TLSSocket).alpnProtocol).toBe("http/1.1");
  expect([serialOf(http1), serialOf(known)]).toEqual(["issued-1", "issued-2"]);
  await expect(statusOf(open())).rejects.toThrow();
  await reload({ listen: { tls: { ...tls, http2: true } } });
  const offered = open({ cert: first.cert, key: first.key });
  await once(offered.socket, "secureConnect");
  expect((offered.socket as TLSSocket).alpnProtocol).toBe("h2");
  await reload({ listen: { tls } });

  const broken = { ...oldTls, key: second.keyFile };
  expect(await reload({ listen: { tls: broken } })).toMatchObject({
    ok: false,
    errors: [expect.stringMatching(/^listen\.tls\.key: found a key that does not belong to the certificate/)],
  });
  expect(await statusOf(open({ cert: first.cert, key: first.key }))).toBe(200);
  expect(await reload({ listen: { tls: null } })).toMatchObject({ ok: true, restart: ["listen.tls.cert"] });
  expect(await statusOf(http1)).toBe(200);
});

test("callers, secrets and denyStatus of checks hold for the next call on an open connection", async () => {
  const http = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const { gateway, connect } = await stageDecision(cleanup, { http });
  const folder = scratchFolder(cleanup);
  const secretsFile = join(folder, "secrets");
  writeFileSync(secretsFile, `${digestOf("secret")}\n`);
  const reload = (extAuth: Overrides["extAuth"], others: Overrides = {}) =>
    gateway.reload(testSettings(deadUrl, { drain, extAuth: { http, ...extAuth }, ...others }));
  const caller = connect();
  const ask = async (target: string, fields = "") => {
    caller.write(`GET /ext-authz${target} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n${token}${fields}\r\n`);
    const { status, rawHeaders } = await caller.read();
    return [status, valuesOf(rawHeaders, "X-Headgate-Status")[0]];
  };
  expect([await ask("/v2/x"), await ask("/v3/x")]).toEqual([
    [200, "200"],
    [404, "404"],
  ]);
  await reload({ trustedCallers: ["127.0.0.1"], denyStatus: 403 }, { routes: ["/v3/"] });
  expect([await ask("/v2/x"), await ask("/v3/x")]).toEqual([
    [403, "404"],
    [200, "200"],
  ]);
  await reload({ trustedCallers: ["203.0.113.1"], secretsFile });
  expect(await ask("/v2/x", "X-Headgate-Secret: secret\r\n")).toEqual([200, "200"]);
  expect(await ask("/v2/x")).toEqual([403, "403"]);
});

test("the same bytes are another question once a reload has changed how they are read", async () => {
  const http = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const extAuth = { http, trustedCallers: ["127.0.0.1"] };
  const { gateway, connect } = await stageDecision(cleanup, { http });
  const reload = (others: Overrides) => gateway.reload(testSettings(deadUrl, { drain, extAuth, ...others }));
  const caller = connect();
  const ask = async () => {
    caller.write(`GET /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\n${token}X-Forwarded-For: 203.0.113.1, 192.0.2.1\r\n\r\n`);
    const { status, rawHeaders } = await caller.read();
    return [status, valuesOf(rawHeaders, "RateLimit-Remaining")[0]];
  };
  for (const remaining of ["99", "98", "97"]) expect(await ask()).toEqual([200, remaining]);
  const clientAddress = { trustedProxies: ["192.0.2.0/24"] };
  await reload({ clientAddress });
  for (const remaining of ["99", "98"]) expect(await ask()).toEqual([200, remaining]);
  await reload({ clientAddress, routes: ["/v3/"] });
  for (let asked = 0; asked < 2; asked += 1) expect(await ask()).toEqual([404, "98"]);
  await reload({});
  expect(await ask()).toEqual([200, "96"]);
});

test("the same for a call over gRPC", async () => {
  const { gateway, client } = await stageGrpc(cleanup);
  const grpc = { host: "127.0.0.1", port: 0, maxConnections: 10 };
  const ask = () => call(client, check, checkRequest());
  expect(await ask()).toMatchObject({ status: "OK" });
  const extAuth = { grpc, trustedCallers: ["203.0.113.1"] };
  expect(await gateway.reload(testSettings(deadUrl, { drain, extAuth }))).toMatchObject({ ok: true });
  expect(await ask()).toMatchObject({ status: "PERMISSION_DENIED" });
});
