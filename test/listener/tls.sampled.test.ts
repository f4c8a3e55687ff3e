// TLS on the listener, by clients that are Node's own and bytes that are nobody's: what a handshake needs, what becomes
// of one that fails, and that HTTP/1.1 over it is the HTTP/1.1 there is without it.
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect as connectTcp } from "node:net";
import { Duplex } from "node:stream";
import { type ConnectionOptions, connect as connectTls, TLSSocket } from "node:tls";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { closeMs } from "../../src/core/http-bounds.ts";
import { Authority, type Issued } from "../support/certificates.ts";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually, within } from "../support/eventually.ts";
import type { Overrides, TestGateway } from "../support/gateway.ts";
import { binaryHeader, ipv4Block, tlsTlv } from "../support/proxy-headers.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { scaled } from "../support/runs.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { stageWebSockets } from "../support/web-sockets.ts";

const cleanup = useCleanup();
/** One serves all tests but those that change or compare certificates: making one takes longer than most tests. */
let authority: Authority;
let issuedOnce: Issued;
const removeLast = useSharedCleanup();
beforeAll(() => {
  authority = new Authority(removeLast);
  issuedOnce = authority.issue();
});

function tlsOverrides(
  issuedBy: Authority,
  { clientCa = false, http2 = true, ...overrides }: Overrides & { clientCa?: boolean; http2?: boolean } = {},
) {
  const { certFile, keyFile, ...issued } = issuedBy === authority ? issuedOnce : issuedBy.issue();
  const tls = { cert: certFile, key: keyFile, clientCa: clientCa ? issuedBy.certFile : null, http2 };
  return { issued, overrides: { ...overrides, listen: { ...overrides.listen, tls } } };
}

async function start(options: Overrides & { clientCa?: boolean; http2?: boolean } = {}) {
  const { overrides } = tlsOverrides(authority, options);
  const staged = await stageHttp(cleanup, undefined, overrides);
  return { ...staged, authority, tls: { ca: authority.cert } satisfies ConnectionOptions };
}

async function figure(gateway: TestGateway, series: string): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const line = text.split("\n").find((sample) => sample.startsWith(`${series} `));
  if (line === undefined) throw new Error(`no ${series}`);
  return Number(line.slice(series.length + 1));
}

const failures = (gateway: TestGateway, reason: string): Promise<number> =>
  figure(gateway, `headgate_tls_handshake_failures_total{reason="${reason}"}`);

/** The gateway's end of a connection may close after the client's. */
const isForgotten = (gateway: TestGateway): Promise<void> =>
  eventually("no connection is left", async () => (await figure(gateway, "headgate_client_connections")) === 0);

/** The code of the error a handshake ends with, or what was agreed on. */
function handshake(port: number, options: ConnectionOptions): Promise<string> {
  const socket = cleanup(connectTls({ port, host: "127.0.0.1", servername: "localhost", ...options }));
  return within(
    "the handshake ends",
    new Promise((resolve) => {
      socket.once("secureConnect", () => resolve(`${socket.getProtocol()} ${socket.alpnProtocol}`));
      socket.once("error", (error) => resolve("code" in error ? String(error.code) : error.message));
    }),
  );
}

test.each([true, false])("HTTP/2 is offered if http2 is %s, HTTP/1.1 always", async (http2) => {
  const { gateway, tls } = await start({ http2 });
  const both = { ...tls, ALPNProtocols: ["h2", "http/1.1"] };
  expect(await handshake(gateway.traffic.port, both)).toBe(`TLSv1.3 ${http2 ? "h2" : "http/1.1"}`);
  expect(await handshake(gateway.traffic.port, { ...tls, ALPNProtocols: ["http/1.1"] })).toBe("TLSv1.3 http/1.1");
});

describe("HTTP/1.1 over TLS", () => {
  test.each([true, false])(
    "a client that names only HTTP/1.0, as curl --http1.0 does, is served (http2: %s)",
    async (http2) => {
      const { connect, tls, gateway } = await start({ http2 });
      const offer = { ...tls, ALPNProtocols: ["http/1.0"] };
      expect(await handshake(gateway.traffic.port, offer)).toBe("TLSv1.3 http/1.0");
      const client = connect({ tls: offer });
      const answer = await client.ask(request("/v2/a").replace("HTTP/1.1", "HTTP/1.0"));
      expectContractFields(answer, { limit: 100, remaining: 99 });
      expect([answer.status, valuesOf(answer.rawHeaders, "connection")]).toEqual([200, ["close"]]);
      await client.closed;
    },
  );

  test.each(["TLSv1.2", "TLSv1.3"] as const)(
    "%s: answered with the fields, on a connection that is kept",
    async (version) => {
      const { connect, tls, upstream } = await start();
      const client = connect({ tls: { ...tls, minVersion: version, maxVersion: version } });
      expectContractFields(await client.ask(request("/v2/a")), { limit: 100, remaining: 99 });
      client.write(request("/v2/b", { method: "POST", fields: "Content-Length: 4\r\n", body: "body" }));
      expectContractFields(await client.read(), { limit: 100, remaining: 98 });
      expect(client.socket instanceof TLSSocket && client.socket.getProtocol()).toBe(version);
      expect(upstream.received.map(({ rawHeaders }) => valuesOf(rawHeaders, "X-Forwarded-Proto"))).toEqual([
        ["https"],
        ["https"],
      ]);
    },
  );

  test("a short answer is one write of the socket", async () => {
    const { connect, tls } = await start();
    const client = connect({ tls });
    await client.ask(request("/v2/a"));
    const write = vi.spyOn(TLSSocket.prototype, "write");
    cleanup(() => write.mockRestore());
    // The gateway's own end of the connection.
    const isAccepted = (socket: unknown): boolean =>
      socket instanceof TLSSocket && socket.remotePort === client.socket.localPort;
    for (const target of ["/v2/b", "/v2/c"]) {
      expect((await client.ask(request(target))).status).toBe(200);
    }
    expect(write.mock.contexts.filter(isAccepted)).toHaveLength(2);
  });

  test("a trusted proxy's X-Forwarded-Proto is kept", async () => {
    const { connect, tls, upstream } = await start({ clientAddress: { trustedProxies: ["127.0.0.1"] } });
    await connect({ tls }).ask(request("/v2/a", { fields: "X-Forwarded-Proto: http\r\n" }));
    expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "X-Forwarded-Proto")).toEqual(["http"]);
  });

  test("requests behind each other and in pieces are answered in order", async () => {
    const { overrides } = tlsOverrides(authority);
    const echo = (req: IncomingMessage, res: ServerResponse, body: Buffer): void => void res.end(`${req.url} ${body}`);
    const { connect, gateway } = await stageHttp(cleanup, echo, overrides);
    const client = connect({ tls: { ca: authority.cert } });
    const post = request("/v2/3", { method: "POST", fields: "Content-Length: 6\r\n", body: "pieces" });
    expect((await client.ask(request("/v2/1") + request("/v2/2") + post.slice(0, 20))).body).toBe("/v2/1 ");
    expect((await client.read()).body).toBe("/v2/2 ");
    client.write(post.slice(20, -3));
    expect(await figure(gateway, "headgate_client_connections")).toBe(1);
    const fields = "Upgrade: x\r\nTransfer-Encoding: chunked\r\n";
    const chunked = request("/v2/4", { method: "POST", fields, body: "2\r\nhi" });
    expect((await client.ask(post.slice(-3) + chunked)).body).toBe("/v2/3 pieces");
    expect((await client.ask("\r\n0\r\n\r\n")).body).toBe("/v2/4 hi");
    expect((await client.ask(request("/v2/5"))).body).toBe("/v2/5 ");
    client.destroy();
    await isForgotten(gateway);
  });

  test("a body of megabytes passes both ways", async () => {
    const { overrides } = tlsOverrides(authority);
    const { connect } = await stageHttp(cleanup, (_req, res, body) => void res.end(body), overrides);
    const body = "0123456789abcdef".repeat(scaled(512 * 1024, 4));
    const client = connect({ tls: { ca: authority.cert } });
    client.write(request("/v2/echo", { method: "POST", fields: `Content-Length: ${body.length}\r\n`, body }));
    const answer = await client.read({ deadlineMs: 15_000 });
    expect(answer.status).toBe(200);
    expect(answer.body === body).toBe(true);
  });

  test("an answer that refuses an unread body arrives whole, and then the connection ends", async () => {
    const { connect, tls } = await start({ maxBodyBytes: 1000 });
    const client = connect({ tls });
    client.write(
      request("/v2/a", { method: "POST", fields: "Content-Length: 2000000\r\n", body: "x".repeat(500_000) }),
    );
    const answer = await client.read();
    expect(answer.status).toBe(413);
    expectContractFields(answer, { limit: 100, remaining: 99 });
    expect(await within("the connection ends", client.closed)).toBe("end");
  });

  test("bytes that are no HTTP are answered 400, with the fields", async () => {
    const { connect, tls } = await start();
    const client = connect({ tls });
    const answer = await client.ask("nonsense\r\n\r\n");
    expect(answer.status).toBe(400);
    expectContractFields(answer, { limit: 100, remaining: 100 });
    expect(await within("the connection ends", client.closed)).toBe("end");
  });

  test("half an answer without framing breaks the connection, and never ends it well", async () => {
    const { overrides } = tlsOverrides(authority);
    const { connect, upstream } = await stageRaw(
      cleanup,
      (socket) => void socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
      overrides,
    );
    const client = connect({ tls: { ca: authority.cert } });
    client.write("GET /v2/x HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n");
    await client.readHead();
    await eventually("the half is there", () => client.rest === "half");
    for (const socket of upstream.sockets) socket.destroy();
    expect(await within("the connection breaks", client.closed)).toBe("ECONNRESET");
  });

  test("the drain waits for what is in flight, and ends the connection well", async () => {
    const { overrides } = tlsOverrides(authority, { drain: { timeoutMs: 60_000 } });
    let release = (): void => {};
    const { connect, gateway, upstream } = await stageRaw(
      cleanup,
      (socket) => {
        release = () => void socket.write(response("late"));
      },
      overrides,
    );
    const client = connect({ tls: { ca: authority.cert } });
    const idle = connect({ tls: { ca: authority.cert } });
    client.write(request("/v2/x"));
    await within("the idle one is connected", once(idle.socket, "secureConnect"));
    await eventually("the request is at the upstream", () => upstream.bytes().includes("/v2/x"));
    await eventually("both are open", async () => (await figure(gateway, "headgate_client_connections")) === 2);
    const drained = gateway.drain();
    expect(await within("the idle one ends", idle.closed)).toBe("end");
    release();
    expect((await client.read()).body).toBe("late");
    expect(await within("the connection ends", client.closed)).toBe("end");
    // Long before its time is over.
    await within("the drain ends", drained);
  });
});

test.each(["h2", "http/1.1"])("a client of %s cannot renegotiate (RFC 9113, 9.2.1)", async (protocol) => {
  const { gateway, tls } = await start();
  const socket = connectTls({
    ...tls,
    port: gateway.traffic.port,
    servername: "localhost",
    maxVersion: "TLSv1.2",
    ALPNProtocols: [protocol],
  });
  cleanup(() => socket.destroy());
  await once(socket, "secureConnect");
  expect([socket.alpnProtocol, socket.getProtocol()]).toEqual([protocol, "TLSv1.2"]);
  const refused = new Promise<Error | null>((resolve) => {
    socket.on("error", resolve);
    socket.renegotiate({ rejectUnauthorized: true }, resolve);
  });
  expect(String(await within("a refusal", refused))).toMatch(/no[ _]renegotiation/i);
});

test("WebSocket over TLS: messages both ways, and the close code", async () => {
  const { overrides } = tlsOverrides(authority);
  const stage = await stageWebSockets(
    cleanup,
    (socket) => socket.on("message", (text) => socket.send(text)),
    overrides,
  );
  const client = await stage.open({ ca: authority.cert });
  const echoed: string[] = [];
  client.on("message", (text) => echoed.push(String(text)));
  const sent = Array.from({ length: 100 }, (_, i) => `message ${i}`);
  for (const text of sent) client.send(text);
  await eventually("all are back", () => echoed.length === sent.length);
  expect(echoed).toEqual(sent);
  const closed = once(client, "close");
  stage.sockets[0]?.close(4001, "done");
  expect((await within("it closes", closed))[0]).toBe(4001);
});

describe("the handshake", () => {
  test("agrees on the best of both, and on HTTP/1.1 by name", async () => {
    const { gateway, tls } = await start();
    const { port } = gateway.traffic;
    expect(await handshake(port, { ...tls, ALPNProtocols: ["http/1.1"] })).toBe("TLSv1.3 http/1.1");
    expect(await handshake(port, { ...tls, ALPNProtocols: ["http/1.0", "http/1.1"] })).toBe("TLSv1.3 http/1.1");
    expect(await handshake(port, { ...tls, maxVersion: "TLSv1.2" })).toBe("TLSv1.2 false");
  });

  test.each<[claim: string, reason: string, options: ConnectionOptions]>([
    ["TLS 1.1 is refused", "incompatible", { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" }],
    ["a protocol nobody speaks here is refused", "incompatible", { ALPNProtocols: ["spdy/3"] }],
    ["HTTP/0.9, which has no status, is refused", "incompatible", { ALPNProtocols: ["http/0.9"] }],
    ["a client that does not trust the certificate leaves", "closed", { ca: [] }],
  ])("%s, counted as %s, and the next client is served", async (_, reason, options) => {
    const { gateway, tls, connect } = await start();
    expect(await handshake(gateway.traffic.port, { ...tls, ...options })).toMatch(/^(ERR_SSL|UNABLE_TO)/);
    await eventually("it is counted", async () => (await failures(gateway, reason)) === 1);
    expect((await connect({ tls }).ask(request("/v2/a"))).status).toBe(200);
    await eventually("it is logged", () => gateway.logLines.some((line) => line["msg"] === "TLS handshake failed"));
  });

  test.each([
    ["a request", "", request("/v2/a")],
    ["an unknown method", "", "M-SEARCH * HTTP/1.1\r\n"],
    [
      "a body behind a PROXY header",

      "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n",
      request("/v2/a", { method: "POST", body: "x".repeat(100_000) }),
    ],
  ])(
    "plain HTTP on the TLS port (%s) is told so with the fields, counted once, and charged to nobody",
    async (_, proxyHeader, bytes) => {
      const { gateway, connect, upstream } = await start({ listen: { proxyProtocol: proxyHeader !== "" } });
      for (let i = 0; i < 2; i += 1) {
        const client = connect({ before: proxyHeader });
        const answer = await client.ask(bytes);
        expect(answer.status).toBe(400);
        expectContractFields(answer, { limit: 100, remaining: 100 });
        expect(valuesOf(answer.rawHeaders, "Connection")).toEqual(["close"]);
        expect(JSON.parse(answer.body)).toEqual({
          message: "Bad Request",
          errors: [{ errMsg: "The request is plain HTTP, and this port expects TLS: use https." }],
        });
        expect(await within("the connection ends", client.closed)).toBe("end");
      }
      expect(await failures(gateway, "not_tls")).toBe(2);
      await isForgotten(gateway);
      expect(upstream.hits()).toBe(0);
    },
  );

  test.each([
    ["no method", "get /v2/a HTTP/1.1\r\n\r\n"],
    ["no space", "SSH-2.0-OpenSSH_9.2\r\n"],
  ])("other bytes on the TLS port (%s) are closed at once, without an answer, and counted", async (_, bytes) => {
    const { gateway, connect } = await start();
    const client = connect().write(bytes);
    await within("the connection ends", client.closed);
    expect(client.rest).toBe("");
    expect(await failures(gateway, "not_tls")).toBe(1);
    await isForgotten(gateway);
  });

  test("a client that asks by plain HTTP and keeps its side open is not kept", async () => {
    holdTimers(cleanup);
    const { gateway, connect } = await start();
    await connect({ allowHalfOpen: true }).ask(request("/v2/a"));
    vi.advanceTimersByTime(closeMs);
    await isForgotten(gateway);
  });

  test("a handshake that comes byte by byte is one all the same", async () => {
    const { gateway, tls } = await start();
    const slow = new Duplex({
      read() {},
      write(data: Buffer, _encoding, done) {
        for (const byte of data) tcp.write(Buffer.from([byte]));
        done();
      },
    });
    const tcp = connectTcp({ port: gateway.traffic.port, host: "127.0.0.1", noDelay: true });
    tcp.on("data", (data) => slow.push(data)).on("error", () => {});
    cleanup(() => tcp.destroy());
    const socket = connectTls({ ...tls, socket: slow, servername: "localhost" });
    await within("the handshake ends", once(socket, "secureConnect"));
  });

  test.each([
    ["nothing", ""],
    ["its first byte", "\x16"],
  ])("one that stops after %s is closed when the head's time is over", async (_, bytes) => {
    const { gateway, connect } = await start({ timeouts: { headMs: 300 } });
    const client = connect().write(bytes);
    // Long before the time of the default configuration is over.
    await within("the connection ends", client.closed);
    expect(await failures(gateway, "timeout")).toBe(1);
    await isForgotten(gateway);
  });

  test("a look at whether the port is open leaves nothing behind", async () => {
    const { gateway } = await start();
    const probe = connectTcp(gateway.traffic.port, "127.0.0.1");
    probe.on("connect", () => probe.end());
    await within("the gateway ends it too", new Promise((resolve) => probe.resume().once("close", resolve)));
    await isForgotten(gateway);
  });

  test("the drain ends those that wait for a handshake", async () => {
    const { gateway, connect } = await start({ drain: { timeoutMs: 300 } });
    const [silent, begun] = [connect(), connect()];
    begun.write("\x16\x03\x01");
    await eventually("both wait", async () => (await figure(gateway, "headgate_client_connections")) === 2);
    await within("the drain ends", gateway.drain());
    await within("both are closed", Promise.all([silent.closed, begun.closed]));
  });
});

test("of one peer more connections than allowed are closed without a word, before the handshake", async () => {
  const { gateway, connect, tls } = await start({ listen: { maxConnectionsPerPeer: 1 } });
  const first = connect({ tls });
  expect((await first.ask(request("/v2/a"))).status).toBe(200);
  const second = connect({ tls });
  await within("the second is closed", second.closed);
  expect(second.rest).toBe("");
  expect(await figure(gateway, 'headgate_connections_shed_total{reason="per_peer"}')).toBe(1);
  first.destroy();
  await isForgotten(gateway);
  expect((await connect({ tls }).ask(request("/v2/a"))).status).toBe(200);
});

test("unfinished handshakes, as many as there may be connections, keep no client out", async () => {
  const { gateway, connect, tls } = await start({ listen: { maxConnections: 4, maxConnectionsPerPeer: 4 } });
  const held = ["", "\x16", "\x16\x03\x01", ""].map((bytes, i) => {
    const stranger = connect({ localAddress: `127.0.0.${i + 2}` }).write(bytes);
    return stranger;
  });
  await eventually("all wait", async () => (await figure(gateway, "headgate_client_connections")) === 4);
  expect((await connect({ tls }).ask(request("/v2/a"))).status).toBe(200);
  await within("the oldest made room", held[0]?.closed ?? Promise.reject());
  expect(held.slice(1).map(({ ending }) => ending)).toEqual([null, null, null]);
  expect(await figure(gateway, 'headgate_connections_shed_total{reason="idle"}')).toBe(1);
});

test("a peer that opens connections too fast has them closed before a handshake", async () => {
  const { gateway, connect, tls } = await start({ listen: { maxConnectionsPerPeer: 1, newConnectionsPerPeer: 1 } });
  const clients = Array.from({ length: 20 }, () => connect({ tls }));
  await within("all but one are closed", Promise.all(clients.slice(1).map(({ closed }) => closed)));
  expect(await figure(gateway, 'headgate_connections_shed_total{reason="rate"}')).toBeGreaterThanOrEqual(15);
  for (const reason of ["closed", "timeout", "other"]) {
    expect(await figure(gateway, `headgate_tls_handshake_failures_total{reason="${reason}"}`)).toBe(0);
  }
});

describe("client certificates", () => {
  test("a client with one is served, a client without one or with another authority's never gets to HTTP", async () => {
    const { gateway, authority, connect, tls, upstream } = await start({ clientCa: true });
    const good = authority.issue();
    const stranger = new Authority(cleanup).issue();
    expect((await connect({ tls: { ...tls, cert: good.cert, key: good.key } }).ask(request("/v2/a"))).status).toBe(200);
    for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
      for (const own of [{}, { cert: stranger.cert, key: stranger.key }]) {
        const client = connect({ tls: { ...tls, ...own, minVersion: version, maxVersion: version } });
        client.write(request("/v2/b"));
        await within("the connection ends", client.closed);
        expect(client.rest).toBe("");
      }
    }
    expect(upstream.hits()).toBe(1);
    await eventually("all are counted", async () => (await failures(gateway, "client_certificate")) === 4);
  });
});

test("the PROXY header comes before the handshake, and names who is charged", async () => {
  const { gateway, connect, tls, upstream } = await start({ listen: { proxyProtocol: true } });
  const client = connect({ tls, before: "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n" });
  expectContractFields(await client.ask(request("/v2/a")), { limit: 100, remaining: 99 });
  expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "X-Forwarded-For")).toEqual(["192.0.2.1"]);
  const without = connect({ tls });
  await within("without the header it is closed", without.closed);
  expect(await figure(gateway, 'headgate_proxy_headers_refused_total{reason="invalid"}')).toBe(1);
});

test("a client that has TLS to the gateway itself came by it, whatever the PROXY header says", async () => {
  const { connect, tls, upstream } = await start({ listen: { proxyProtocol: true } });
  const body = Buffer.concat([ipv4Block([192, 0, 2, 1]), tlsTlv(0)]);
  const client = connect({ tls, before: binaryHeader(0x21, 0x11, body).toString("latin1") });
  expect((await client.ask(request("/v2/a"))).status).toBe(200);
  expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "X-Forwarded-Proto")).toEqual(["https"]);
});

test("a certificate that is replaced is shown to new connections, while old ones go on", async () => {
  const own = new Authority(cleanup);
  const { issued: first, overrides } = tlsOverrides(own);
  const { gateway, connect } = await stageHttp(cleanup, undefined, overrides);
  const tls = { ca: own.cert };
  const current = () => figure(gateway, "headgate_tls_certificate_current");
  const expiry = () => figure(gateway, "headgate_tls_certificate_expiry_timestamp_seconds");
  const serial = (client: RawConnection) =>
    within(
      "a handshake",
      new Promise((resolve) => {
        const { socket } = client;
        socket.once("secureConnect", () => resolve((socket as TLSSocket).getPeerX509Certificate()?.serialNumber));
      }),
    );
  const old = connect({ tls });
  const firstSerial = await serial(old);
  expect(firstSerial).toBe(new X509Certificate(first.cert).serialNumber);
  expect(await expiry()).toBe(new X509Certificate(first.cert).validToDate.getTime() / 1000);

  // Only the certificate: with the old key it is no pair, and nothing changes but what is told.
  const second = own.issue({ validDays: [-1, 1] });
  writeFileSync(overrides.listen.tls.cert, second.cert);
  await eventually("it is told", async () => (await current()) === 0, 10_000);
  expect(gateway.logLines.filter((line) => line["level"] === "error")).toMatchObject([
    { errors: [{ key: "listen.tls.key", found: "a key that does not belong to the certificate" }] },
  ]);
  expect(await serial(connect({ tls }))).toBe(firstSerial);

  writeFileSync(overrides.listen.tls.key, second.key);
  await eventually("the pair is in use", async () => (await current()) === 1, 10_000);
  expect(await serial(connect({ tls }))).toBe(new X509Certificate(second.cert).serialNumber);
  expect(await expiry()).toBe(new X509Certificate(second.cert).validToDate.getTime() / 1000);
  expect(gateway.logLines.some((line) => /^the certificate expires in (0 days|1 day)$/.test(String(line["msg"])))).toBe(
    true,
  );
  expect((await old.ask(request("/v2/a"))).status).toBe(200);
  expect(JSON.stringify(gateway.logLines)).not.toContain("PRIVATE KEY");
});
