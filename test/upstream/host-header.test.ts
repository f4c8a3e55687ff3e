// The Host that the upstream gets (`upstream.hostHeader`): the client's, the URL's or one that is named, over every carrier, in
// health checks and in the plugin. X-Forwarded-Host is the client's in each case.
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { upstreamHostLines } from "../../src/config/upstream.ts";
import { startTestApp } from "../fastify/app.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { type Overrides, startTestGateway, testSettings } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";
import { startTlsUpstream } from "../support/tls-upstream.ts";
import { type RawUpstream, startRawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const tls = useTls();

const ok = (socket: Socket, data: Buffer): void => {
  if (data.includes("\r\n\r\n")) socket.write(response("ok"));
};

const lines = (bytes: string): string[] => bytes.match(/^(x-forwarded-)?host: .*?(?=\r$)/gim) ?? [];

/** `target` names the host if `host` does not. */
const get = (host: string, target = "/v2/x", version = "1.1"): string =>
  `GET ${target} HTTP/${version}\r\n${host}Authorization: Bearer t\r\n\r\n`;
const offer = request("/v2/x", { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" });

/** What each asks, and the Host and X-Forwarded-Host that are sent with "client"; null: none. */
const asks: Readonly<Record<string, readonly [bytes: string, host: string | null]>> = {
  "HTTP/1.1": [get("Host: Gateway.test:8080\r\n"), "Gateway.test:8080"],
  "HTTP/1.1 with an absolute target": [get("Host: x\r\n", "http://gateway.test/v2/x"), "gateway.test"],
  "HTTP/1.0 without a Host": [get("", "/v2/x", "1.0"), null],
  "an offer of WebSocket": [offer, "api.test"],
};

async function stage(hostHeader: string, overrides: Overrides = {}, url = "http://api.hosted.test./base") {
  const upstream = cleanup(await startRawUpstream(ok));
  const gateway = await startTestGateway({
    upstreamUrl: url,
    overrides: {
      ...{ drain: { timeoutMs: 0 }, auth: { mode: "off" } },
      ...overrides,
      upstream: { addresses: [`127.0.0.1:${upstream.port}`], hostHeader, ...overrides.upstream },
    },
  });
  cleanup(() => gateway.close());
  return { upstream, gateway };
}

/** Without its final dot, as in SNI. */
const ofUrl = "api.hosted.test";
const expected = (host: string | null, client: string | null): string[] => [
  `Host: ${host ?? client ?? ofUrl}`,
  ...(client === null ? [] : [`X-Forwarded-Host: ${client}`]),
];

describe.each([
  ["client", null],
  ["url", ofUrl],
  ["name:Other.test:8443", "Other.test:8443"],
])("%s", (hostHeader, host) => {
  test("HTTP/1.1, HTTP/1.0 and an offer of WebSocket", async () => {
    const { upstream, gateway } = await stage(hostHeader);
    for (const [name, [bytes, client]] of Object.entries(asks)) {
      const before = upstream.bytes().length;
      await cleanup(new RawConnection(gateway.traffic.port)).ask(bytes);
      expect([name, ...lines(upstream.bytes().slice(before))]).toEqual([name, ...expected(host, client)]);
    }
  });

  test("HTTP/2", async () => {
    const { ca, overrides } = tls();
    const { upstream, gateway } = await stage(hostHeader, overrides);
    await new Http2Client(gateway.traffic.port, ca, cleanup).ask({ fields: { ":authority": "gateway.test" } });
    expect(lines(upstream.bytes())).toEqual(expected(host, "gateway.test"));
  });

  test("health checks, which have no client, get the URL's host or the named one", async () => {
    const healthCheck = { path: "/health", intervalMs: 60_000, timeoutMs: 5_000 };
    const { upstream } = await stage(hostHeader, { upstream: { healthCheck } });
    await eventually("it is checked", () => upstream.bytes().includes("\r\n\r\n"));
    expect(lines(upstream.bytes())).toEqual([`Host: ${host ?? ofUrl}`]);
  });

  test("the plugin", async () => {
    const upstream = cleanup(await startRawUpstream(ok));
    const options = { routes: ["/v2/"], upstream: { url: upstream.url, hostHeader } };
    expect((await (await startTestApp(cleanup, { options })).connect().ask(request("/v2/x"))).status).toBe(200);
    const sent = hostHeader === "url" ? `127.0.0.1:${upstream.port}` : host;
    // Undici writes its name in lower case.
    expect(lines(upstream.bytes()).map((line) => line.replace(/^host/, "Host"))).toEqual(expected(sent, "api.test"));
  });
});

test("a second request on a connection, and one after a reload, have the Host of the configuration in force", async () => {
  const { gateway, upstream, connect } = await stageRaw(cleanup, ok, { upstream: { hostHeader: "name:a.test" } });
  const client = connect();
  const hosts = async (): Promise<string[]> => {
    await client.ask(request("/v2/x"));
    return lines(upstream.bytes()).filter((line) => line.startsWith("Host"));
  };
  await hosts();
  expect(await hosts()).toEqual(["Host: a.test", "Host: a.test"]);
  const next = testSettings(upstream.url, { drain: { timeoutMs: 0 }, upstream: { hostHeader: "name:b.test" } });
  expect(await gateway.reload(next)).toMatchObject({ ok: true, changed: ["upstream.hostHeader"] });
  expect((await hosts()).at(-1)).toBe("Host: b.test");
});

test("SNI is the URL's host or tls.serverName, whatever Host is; with url both are the same", async () => {
  const { cert, key } = tls().overrides.listen?.tls ?? { cert: "", key: "" };
  const upstream = await startTlsUpstream(cleanup, { cert: readFileSync(cert), key: readFileSync(key) });
  const { tls: defaults } = testSettings("https://a").upstream;
  const ask = async (hostHeader: string, serverName: string | null): Promise<(string | false | null | undefined)[]> => {
    const addresses = [`127.0.0.1:${upstream.port}`];
    const { gateway } = await stage(
      hostHeader,
      { upstream: { addresses, tls: { ...defaults, insecureSkipVerify: true, serverName } } },
      "https://api.hosted.test.:8443",
    );
    expect((await cleanup(new RawConnection(gateway.traffic.port)).ask(request("/v2/x"))).status).toBe(200);
    return [upstream.sockets.at(-1)?.servername, lines(upstream.bytes()).at(-2)];
  };
  expect(await ask("client", null)).toEqual(["api.hosted.test", "Host: api.test"]);
  expect(await ask("url", null)).toEqual(["api.hosted.test", "Host: api.hosted.test:8443"]);
  expect(await ask("url", "other.test")).toEqual(["other.test", "Host: api.hosted.test:8443"]);
  expect(await ask("name:other.test", "other.test")).toEqual(["other.test", "Host: other.test"]);
});

const written =
  "Location: https://api.hosted.test/v2/next\r\nLink: <https://api.hosted.test/v2/x?page=2>; rel=next\r\n" +
  "Content-Location: https://api.hosted.test/v2/x\r\nRefresh: 1; url=https://api.hosted.test/\r\n" +
  "Set-Cookie: a=b; Domain=api.hosted.test; Secure\r\nAccess-Control-Allow-Origin: https://api.hosted.test\r\n";
const asked =
  "Destination: https://api.test/v2/y\r\nIf: <https://api.test/v2/x> (<opaquelocktoken:a>)\r\n" +
  "Origin: https://api.test\r\nReferer: https://api.test/page\r\n";

test.each(["client", "url"])(
  "nothing else is rewritten, in either direction, with hostHeader %s",
  async (hostHeader) => {
    const body = '{"next":"https://api.hosted.test/v2/x?page=2"}';
    const answer = (socket: Socket): void => void socket.write(response(body, written, "302 Found"));
    const { upstream, connect } = await stageRaw(cleanup, answer, { upstream: { hostHeader } });
    const options = { routes: ["/v2/"], upstream: { url: upstream.url, hostHeader } };
    for (const client of [connect(), (await startTestApp(cleanup, { options })).connect()]) {
      const before = upstream.bytes().length;
      const { rawHeaders, ...rest } = await client.ask(request("/v2/x", { fields: asked }));
      expect(rest).toMatchObject({ status: 302, body });
      const names = new Set(written.match(/^[\w-]+(?=: )/gm));
      const lines = rawHeaders.map((name, i) =>
        i % 2 === 0 && names.has(name) ? `${name}: ${rawHeaders[i + 1]}\r\n` : "",
      );
      expect(lines.join("")).toBe(written);
      for (const line of asked.split("\r\n")) expect(upstream.bytes().slice(before)).toContain(line);
    }
  },
);

const misdirected = (socket: Socket): void => void socket.write(response("no", "", "421 Misdirected Request"));

describe("a 421 of the upstream passes as it came, and the access log has a hint", () => {
  const hint = expect.stringContaining("upstream.hostHeader");

  test("of the gateway", async () => {
    const { gateway, connect } = await stageRaw(cleanup, misdirected);
    expect(await connect().ask(request("/v2/x"))).toMatchObject({ status: 421, body: "no" });
    await eventually("it is logged", () => gateway.logLines.some(({ msg }) => msg === "request"));
    expect(gateway.logLines.at(-1)).toMatchObject({ status: 421, problem: null, detail: hint });
  });

  test("of the plugin", async () => {
    const upstream: RawUpstream = await startRawUpstream(misdirected);
    cleanup(() => upstream.close());
    const app = await startTestApp(cleanup, { options: { routes: ["/v2/"], upstream: { url: upstream.url } } });
    expect(await app.connect().ask(request("/v2/x"))).toMatchObject({ status: 421, body: "no" });
    await eventually("it is logged", () => app.lines.some(({ msg }) => msg === "request"));
    expect(app.lines.find(({ msg }) => msg === "request")).toMatchObject({ status: 421, detail: hint });
  });
});

test.each([
  ["http://api.test", "client", null, null],
  ["https://api.test", "url", null, null],
  ["https://API.test.:8443", "name:api.test:8443", null, null],
  ["https://10.0.0.1", "name:b.test", "b.test", null],
  ["https://api.test", "client", null, "SNI is api.test, Host is the client's"],
  ["https://10.0.0.1:8443", "client", null, "SNI is none, Host is the client's"],
  ["https://10.0.0.1:8443", "url", "b.test", "SNI is b.test, Host is 10.0.0.1:8443"],
  ["https://api.test", "name:b.test", null, "SNI is api.test, Host is b.test"],
])("what check says of %s with hostHeader %s and serverName %s", (url, hostHeader, serverName, said) => {
  const { upstream } = testSettings(url);
  const found = upstreamHostLines({ ...upstream, hostHeader, tls: { ...upstream.tls, serverName } });
  const rest = ": if they differ, a server with several hosts may answer 421";
  expect(found).toEqual(said === null ? [] : [`# upstream: ${said}${rest}`]);
});
