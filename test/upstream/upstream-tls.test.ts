// An upstream over TLS: believed only with a certificate that is good, for the name that was meant, from an authority
// that was named; and a connection that somebody cuts is never taken for the end of a response.
import type { TlsOptions } from "node:tls";
import { afterAll, expect, test } from "vitest";
import type { UpstreamTlsSettings } from "../../src/core/upstream.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, within } from "../support/eventually.ts";
import { startTestGateway, type TestGateway, testSettings } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, response } from "../support/stage.ts";
import { startTlsUpstream, type TlsUpstream } from "../support/tls-upstream.ts";
import { startRawUpstream, startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const authority = new Authority(afterAll);
const stranger = new Authority(afterAll);
const good = authority.issue();

interface Staged {
  readonly gateway: TestGateway;
  connect(): RawConnection;
  /** What a GET is answered with. */
  status(): Promise<number>;
  /** The reasons counted so far. */
  reasons(): Promise<(string | undefined)[]>;
  /** The codes logged so far. */
  codes(): unknown[];
}

/** `connectTimeoutMs`: by default longer than this process may stand still. */
async function stage(url: string, tls: Partial<UpstreamTlsSettings> = {}, connectTimeoutMs = 30_000): Promise<Staged> {
  const { upstream } = testSettings(url);
  const overrides = {
    drain: { timeoutMs: 0 },
    // Some tests ask until it is so.
    policies: [slidingPolicy({ limit: 100_000, windowMs: 60_000 })],
    upstream: { connectTimeoutMs, tls: { ...upstream.tls, ca: authority.certFile, ...tls } },
  };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: url, overrides }));
  const connect = (): RawConnection => {
    return cleanup(new RawConnection(gateway.traffic.port));
  };
  return {
    gateway,
    connect,
    async status() {
      return (await connect().ask(request("/v2/x"))).status;
    },
    async reasons() {
      const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
      const counted = metrics.matchAll(/^headgate_upstream_errors_total\{reason="(\w+)"\} [1-9]\d*$/gm);
      return [...counted].map((match) => match[1]);
    },
    codes: () => gateway.logLines.filter(({ msg }) => msg === "upstream failed").map(({ code }) => code),
  };
}

const start = (options: TlsOptions = good): Promise<TlsUpstream> => startTlsUpstream(cleanup, options);

test("a good certificate: HTTP/1.1 over TLS 1.3, the URL's host as server name, whatever Host the clients send", async () => {
  const upstream = await start();
  const { connect } = await stage(upstream.url);
  const client = connect();
  for (const host of ["api.test", "other.test", "127.0.0.1"]) {
    client.write(`GET /v2/x HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer t\r\n\r\n`);
    expect((await client.read()).status).toBe(200);
  }
  expect(upstream.sockets).toHaveLength(1);
  const [socket] = upstream.sockets;
  expect([socket?.servername, socket?.alpnProtocol, socket?.getProtocol()]).toEqual(["localhost", false, "TLSv1.3"]);
  expect(upstream.bytes()).toContain("Host: other.test\r\n");
});

test("HTTP/1.1 is what is asked for, also of an upstream that would rather speak HTTP/2", async () => {
  const upstream = await start({ ...good, ALPNProtocols: ["h2", "http/1.1"] });
  const { status } = await stage(upstream.url);
  expect(await status()).toBe(200);
  expect(upstream.sockets[0]?.alpnProtocol).toBe("http/1.1");
});

test("an address is sent as no server name, and is held against the certificate", async () => {
  const upstream = await start();
  const { status } = await stage(`https://127.0.0.1:${upstream.port}`);
  expect(await status()).toBe(200);
  expect(upstream.sockets[0]?.servername).toBe(false);
});

test.each([
  ["expired", { validDays: [-3, -1] as const }, "CERT_HAS_EXPIRED"],
  ["not yet valid", { validDays: [1, 2] as const }, "CERT_NOT_YET_VALID"],
  ["for another name", { names: ["DNS:other.test"] }, "ERR_TLS_CERT_ALTNAME_INVALID"],
  ["for an address that is not the name", { names: ["IP:127.0.0.1"] }, "ERR_TLS_CERT_ALTNAME_INVALID"],
])("a certificate that is %s is a 502, a reason of its own, and no byte sent", async (_, issue, code) => {
  const upstream = await start(authority.issue(issue));
  const { status, reasons, codes } = await stage(upstream.url);
  expect(await status()).toBe(502);
  expect(await reasons()).toEqual(["certificate"]);
  expect(codes()).toEqual([code]);
  expect(upstream.bytes()).toBe("");
});

test("a certificate of an authority that was not named is refused, and so is one without the address it is asked by", async () => {
  const unknown = await stage((await start(stranger.issue())).url);
  expect(await unknown.status()).toBe(502);
  expect(unknown.codes()).toEqual(["UNABLE_TO_VERIFY_LEAF_SIGNATURE"]);
  const upstream = await start(authority.issue({ names: ["DNS:localhost"] }));
  const byAddress = await stage(`https://127.0.0.1:${upstream.port}`);
  expect(await byAddress.status()).toBe(502);
  expect(byAddress.codes()).toEqual(["ERR_TLS_CERT_ALTNAME_INVALID"]);
});

test("without ca Node's own authorities count, and ours is none of them", async () => {
  const { status, reasons } = await stage((await start()).url, { ca: null });
  expect(await status()).toBe(502);
  expect(await reasons()).toEqual(["certificate"]);
});

test("serverName is asked for and looked for in place of the host", async () => {
  const upstream = await start(authority.issue({ names: ["DNS:backend.test"] }));
  const { status } = await stage(upstream.url, { serverName: "backend.test" });
  expect(await status()).toBe(200);
  expect(upstream.sockets[0]?.servername).toBe("backend.test");
});

test("a client certificate is shown to an upstream that asks for one; without, it is a 502", async () => {
  const upstream = await start({ ...good, ca: authority.cert, requestCert: true, rejectUnauthorized: true });
  const own = authority.issue({ names: ["DNS:gateway.test"] });
  const known = await stage(upstream.url, { cert: own.certFile, key: own.keyFile });
  expect(await known.status()).toBe(200);
  expect(upstream.sockets[0]?.authorized).toBe(true);
  const nobody = await stage(upstream.url);
  expect(await nobody.status()).toBe(502);
});

test("insecureSkipVerify takes any certificate, and says so at the start", async () => {
  const upstream = await start(stranger.issue({ names: ["DNS:other.test"], validDays: [-3, -1] }));
  const { status, gateway } = await stage(upstream.url, { insecureSkipVerify: true });
  expect(await status()).toBe(200);
  expect(gateway.logLines.filter(({ level }) => level === "warn").map(({ detail }) => detail)).toEqual([
    "upstream.tls.insecureSkipVerify is true: anyone on the network path can impersonate the upstream",
  ]);
});

test("TLS 1.1 is refused, and so is what is no TLS", async () => {
  const old = await start({ ...good, minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" });
  const toOld = await stage(old.url);
  expect(await toOld.status()).toBe(502);
  expect(await toOld.reasons()).toEqual(["tls"]);
  const plain = cleanup(await startUpstream());
  const toPlain = await stage(`https://localhost:${plain.port}`);
  expect(await toPlain.status()).toBe(502);
  expect(await toPlain.reasons()).toEqual(["tls"]);
});

test("a handshake that stalls is a 504 after the connect timeout", async () => {
  const silent = cleanup(await startRawUpstream(() => {}));
  const { status, reasons } = await stage(`https://localhost:${silent.port}`, {}, 300);
  expect(await within("an answer", status(), 2_000)).toBe(504);
  expect(await reasons()).toEqual(["connect_timeout"]);
  await eventually("the connection is gone", () => silent.sockets.size === 0);
});

const endless = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npartial body";

test.each(["TLSv1.2", "TLSv1.3"] as const)(
  "%s: a body without length ends well only with an end of TLS, and is broken off otherwise",
  async (maxVersion) => {
    const upstream = await startTlsUpstream(cleanup, { ...good, maxVersion }, (socket, data) => {
      socket.write(endless, () => (data.includes("/v2/cut") ? socket.destroy() : socket.end()));
    });
    const { connect, reasons } = await stage(upstream.url);
    const whole = connect();
    expect((await whole.ask(request("/v2/whole"))).body).toBe("partial body");
    expect(await reasons()).toEqual([]);
    const cut = connect();
    cut.write(request("/v2/cut"));
    await within("the connection ends", cut.closed);
    expect(cut.rest).toContain("partial body");
    expect(cut.rest).not.toContain("\r\n0\r\n");
    expect(await reasons()).toEqual(["closed_early"]);
  },
);

test("a GET that meets an idle TLS connection being cut is sent once more, a POST never", async () => {
  const answered = new Set<unknown>();
  const upstream = await startTlsUpstream(cleanup, good, (socket) => {
    if (answered.has(socket)) socket.destroy();
    else socket.write(response("ok"));
    answered.add(socket);
  });
  const { connect } = await stage(upstream.url);
  const client = connect();
  const send = async (method: string): Promise<number> => {
    return (await client.ask(request("/v2/x", { method }), { method })).status;
  };
  expect([await send("GET"), await send("GET"), await send("POST")]).toEqual([200, 200, 502]);
  expect(upstream.bytes().match(/^[A-Z]+ /gm)).toEqual(["GET ", "GET ", "GET ", "POST "]);
});

test("a body of some size passes in both directions", async () => {
  const upstream = await startTlsUpstream(cleanup, good, (socket, data) => {
    if (data.includes("end of body")) socket.write(response("y".repeat(3_000_000)));
  });
  const { connect } = await stage(upstream.url);
  const client = connect();
  const body = `${"x".repeat(2_000_000)}end of body`;
  client.write(request("/v2/x", { method: "POST", fields: `Content-Length: ${body.length}\r\n`, body }));
  expect((await client.read()).body).toBe("y".repeat(3_000_000));
  expect(upstream.bytes().endsWith(body)).toBe(true);
});

test("an upgrade passes over TLS, both ways", async () => {
  const upstream = await startTlsUpstream(cleanup, good, (socket, data) => {
    const isHead = /^upgrade: websocket\r$/im.test(data.toString("latin1"));
    socket.write(
      isHead ? "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" : data,
    );
  });
  const { connect } = await stage(upstream.url);
  const client = connect().write(request("/v2/x", { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" }));
  expect((await client.readHead()).status).toBe(101);
  client.write("hello");
  await eventually("it came back", () => client.rest === "hello");
  client.socket.end();
  await eventually("the upstream's side has ended", () => upstream.sockets[0]?.readableEnded === true);
});

test("a changed ca counts for new connections within seconds; one that is broken is told once and changes nothing", async () => {
  const upstream = await start(stranger.issue());
  const ca = authority.write("changing.pem", authority.cert);
  const { status, gateway } = await stage(upstream.url, { ca });
  expect(await status()).toBe(502);
  authority.write("changing.pem", stranger.cert);
  await eventually("the upstream is believed", async () => (await status()) === 200);
  authority.write("changing.pem", "no certificate");
  const told = (): unknown[] => gateway.logLines.filter(({ level }) => level === "error");
  await eventually("it is told", () => told().length > 0);
  expect(told()).toMatchObject([{ errors: [{ key: "upstream.tls.ca", found: "no certificate" }] }]);
  for (const socket of upstream.sockets) socket.destroy();
  expect(await status()).toBe(200);
});

test("POSTs within a second of each other share a handshake, and one after a second of idleness has its own", async () => {
  const { url, sockets } = await startTlsUpstream(cleanup, good);
  const clock = new FakeClock();
  const { upstream } = testSettings(url);
  const overrides = { upstream: { tls: { ...upstream.tls, ca: authority.certFile } }, drain: { timeoutMs: 0 } };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: url, overrides, clock }));
  const client = cleanup(new RawConnection(gateway.traffic.port));
  const handshakes: number[] = [];
  for (const idleMs of [0, 100, 999, 1_000, 999]) {
    clock.advance(idleMs);
    client.write(request("/v2/x", { method: "POST", fields: "Content-Length: 2\r\n", body: "hi" }));
    expect((await client.read()).status).toBe(200);
    handshakes.push(sockets.length);
  }
  expect(handshakes).toEqual([1, 1, 1, 2, 2]);
});
