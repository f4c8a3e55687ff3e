// The plugin with an upstream: what is not as with the gateway, or what the corpora do not ask. What both do is in
// test/conformance/forwarding.test.ts, and the bytes of single requests and responses are in corpus-cases.long.ts.
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { HeadgateOptions } from "../../src/fastify/index.ts";
import { Authority, type Issued } from "../support/certificates.ts";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually, within } from "../support/eventually.ts";
import { Http2Client } from "../support/http2-client.ts";
import { valuesOf } from "../support/raw-client.ts";
import { pour } from "../support/slow-peer.ts";
import { request, response } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { startTlsUpstream } from "../support/tls-upstream.ts";
import { startRawUpstream, startUpstream } from "../support/upstream.ts";
import { startTestApp, type TestAppOptions } from "./app.ts";

const cleanup = useCleanup();

type Upstream = Partial<NonNullable<HeadgateOptions["upstream"]>>;

async function stage(url: string, upstream: Upstream = {}, test: TestAppOptions = {}) {
  return startTestApp(cleanup, {
    ...test,
    options: { routes: ["/v2/"], ...test.options, upstream: { url, ...upstream } },
  });
}

async function stageRaw(onData: (socket: Socket, data: Buffer) => void, options: Upstream = {}, test?: TestAppOptions) {
  const upstream = cleanup(await startRawUpstream(onData));
  return { upstream, ...(await stage(upstream.url, options, test)) };
}

const ok = (socket: Socket): void => void socket.write(response("ok"));

describe("routes", () => {
  test("a route of the app goes before the upstream, and outside of the routes there is only the app", async () => {
    const routes = (app: FastifyInstance): void => {
      app.get("/v2/own", async () => "own");
      app.setNotFoundHandler((_request, reply) => reply.code(404).send("the app has none"));
    };
    const { upstream, connect } = await stageRaw(ok, {}, { routes });
    const client = connect();
    const ask = async (target: string) => {
      const { status, body } = await client.ask(request(target));
      return `${status} ${body}`;
    };
    expect(await ask("/v2/own")).toBe("200 own");
    expect(await ask("/v2/other")).toBe("200 ok");
    expect(await ask("/page")).toBe("404 the app has none");
    expect(upstream.bytes()).not.toMatch(/own|page/);
  });

  test("the path of the upstream's URL stands before the target", async () => {
    const upstream = cleanup(await startRawUpstream(ok));
    const { connect } = await stage(`${upstream.url}/api`);
    expect((await connect().ask(request("/v2/x?a=%20#b"))).status).toBe(200);
    expect(upstream.bytes()).toMatch(/^GET \/api\/v2\/x\?a=%20#b HTTP\/1\.1\r\n/);
  });

  test("of headers that hooks of the app set, the response has those that the upstream does not", async () => {
    const { connect } = await stageRaw(
      (socket) => void socket.write(response("ok", "Server: theirs\r\n")),
      {},
      {
        before: (app) =>
          app.addHook("onRequest", async (_request, reply) => void reply.headers({ vary: "Origin", server: "ours" })),
      },
    );
    const { rawHeaders } = await connect().ask(request("/v2/x"));
    expect(valuesOf(rawHeaders, "Vary")).toEqual(["Origin"]);
    expect(valuesOf(rawHeaders, "Server")).toEqual(["theirs"]);
  });
});

describe("idle connections", () => {
  test.each([
    ["auto", "", 999],
    ["10m", "Keep-Alive: timeout=75\r\n", 999],
    ["auto", "Keep-Alive: timeout=2\r\n", 999],
    ["300ms", "", 299],
  ])(
    "with keepAlive %s and %j of the upstream, one is used again for %d ms, then closed",
    async (keepAlive, fields, ms) => {
      holdTimers(cleanup);
      const used: Socket[] = [];
      const onData = (socket: Socket): void => {
        used.push(socket);
        socket.write(response("ok", fields));
      };
      const { connect, upstream } = await stageRaw(onData, { keepAlive });
      const client = connect();
      for (const method of ["GET", "POST"]) {
        client.write(request("/v2/x", { method, fields: method === "POST" ? "Content-Length: 0\r\n" : "" }));
        expect((await client.read()).status).toBe(200);
      }
      expect(used[1]).toBe(used[0]);
      expect(upstream.sockets.size).toBe(1);
      vi.advanceTimersByTime(ms + 1);
      // Sooner than the gateway would close it.
      await eventually("it is closed", () => upstream.sockets.size === 0, 2_000);
    },
  );

  test.each([
    ["keepAlive: 0", { keepAlive: "0" }, "", "close"],
    ["an upstream that keeps one for a second", {}, "Keep-Alive: timeout=1\r\n", "keep-alive"],
  ])("with %s, each request has a connection of its own", async (_, options, fields, connection) => {
    const used: Socket[] = [];
    const onData = (socket: Socket): void => {
      used.push(socket);
      socket.write(response("ok", fields));
    };
    const { connect, upstream } = await stageRaw(onData, options);
    const client = connect();
    for (let i = 0; i < 3; i += 1) {
      expect((await client.ask(request("/v2/x"))).status).toBe(200);
    }
    expect(new Set(used).size).toBe(3);
    expect(upstream.bytes().match(/^connection: .*$/gim)).toEqual(Array(3).fill(`connection: ${connection}`));
  });
});

describe("TLS", () => {
  const removeLast = useSharedCleanup();
  let authority: Authority;
  let issued: Issued;
  beforeAll(() => {
    authority = new Authority(removeLast);
    issued = authority.issue();
  });

  test.each([
    ["is not trusted by default", 502, () => ({})],
    ["is trusted with its authority", 200, () => ({ ca: authority.certFile })],
    ["is not that of another name", 502, () => ({ ca: authority.certFile, serverName: "other.test" })],
    ["is not looked at if the options say so", 200, () => ({ insecureSkipVerify: true })],
  ])("a certificate of an unknown authority %s", async (_, status, tls) => {
    const upstream = await startTlsUpstream(cleanup, { cert: issued.cert, key: issued.key });
    const { connect, lines } = await stage(upstream.url, { tls: tls() });
    expect((await connect().ask(request("/v2/x"))).status).toBe(status);
    if (status === 502) expect(upstream.bytes()).toBe("");
    expect(lines.some(({ detail }) => String(detail).startsWith("upstream.tls.insecureSkipVerify"))).toBe(
      "insecureSkipVerify" in tls(),
    );
  });
});

describe("a client that leaves", () => {
  test("while it waits for a connection gives its place to the next", async () => {
    const { upstream, connect, app } = await stageRaw(
      (socket, data) => void (data.includes("/v2/held") || ok(socket)),
      { maxConnections: 1 },
    );
    const waiting = async (): Promise<boolean> =>
      (await app.headgate.metrics()).body.includes('headgate_upstream_connections{state="waiting"} 1');
    const [first, second, third] = [connect(), connect(), connect()];
    first.write(request("/v2/held"));
    await eventually("one is at the upstream", () => upstream.bytes() !== "");
    second.write(request("/v2/second"));
    await eventually("one waits", waiting);
    second.destroy();
    await eventually("none waits", async () => !(await waiting()));
    third.write(request("/v2/third"));
    await eventually("one waits", waiting);
    first.destroy();
    expect(await third.read()).toMatchObject({ status: 200, body: "ok" });
    expect(upstream.bytes()).not.toContain("/v2/second");
  });
});

describe("bodies", () => {
  test("a body of a type that the app has a parser for passes as it is", async () => {
    const { upstream, connect } = await stageRaw(
      ok,
      {},
      {
        before: (app) =>
          app.addContentTypeParser("application/octet-stream", () => Promise.reject(new Error("parsed"))),
      },
    );
    const client = connect();
    const fields = "Content-Type: application/octet-stream\r\nContent-Length: 2\r\n";
    expect((await client.ask(request("/v2/x", { method: "POST", fields, body: "hi" }))).status).toBe(200);
    expect(upstream.bytes()).toMatch(/\r\n\r\nhi$/);
  });

  test.each(["Content-Length: 65537\r\n", ""])(
    "a response whose upstream closes while the client takes no more arrives whole (%j)",
    async (length) => {
      const closed = Promise.withResolvers<void>();
      let upstreamSocket: Socket | undefined;
      // A client that takes no more from the first piece on. The rest is as much as undici keeps for it.
      const takeNoMore = ({ raw }: { raw: ServerResponse }): void => {
        const { write } = raw;
        raw.write = (...args: unknown[]) => {
          Reflect.apply(write, raw, args);
          upstreamSocket?.end("x".repeat(64 * 1024));
          return false;
        };
        void closed.promise.then(() => raw.emit("drain"));
      };
      const before = (app: FastifyInstance): void =>
        void app.addHook("onRequest", async (_request, reply) => takeNoMore(reply));
      const { connect } = await stageRaw(
        (socket) => {
          upstreamSocket = socket;
          socket.write(`HTTP/1.1 200 OK\r\n${length}Connection: close\r\n\r\nx`);
          socket.once("close", () => setImmediate(closed.resolve));
        },
        {},
        { before },
      );
      expect((await connect().ask(request("/v2/x"))).body).toBe("x".repeat(64 * 1024 + 1));
    },
  );

  test("an upload below the configured rate is answered 408, and the log names the key", async () => {
    const options = { timeouts: { body: "500ms", bodyRate: "1MiB" } };
    const { connect, lines } = await stageRaw(() => {}, {}, { options });
    // At most 400 KB a second: far above the rate by default. An upload without a byte would be ended by the other key.
    const piece = "x".repeat(8_000);
    const fields = "Content-Length: 9000000\r\n";
    const client = connect().write(request("/v2/x", { method: "POST", fields, body: piece }));
    const timer = setInterval(() => client.write(piece), 20);
    cleanup(() => clearInterval(timer));
    expect((await client.read()).status).toBe(408);
    await eventually("it is logged", () => lines.some(({ msg }) => msg === "request"));
    expect(lines.find(({ msg }) => msg === "request")).toMatchObject({
      problem: "slow_request",
      detail: expect.stringMatching(/^timeouts\.bodyRate 1048576 B\/s: /),
    });
  });

  test("a response that the client does not read is not read from the upstream either, and ends for being too slow", async () => {
    const size = 64 * 1024 * 1024;
    let sent: Socket | undefined;
    const { connect, lines } = await stageRaw(
      (socket) => {
        sent = socket;
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
        pour(socket, size);
      },
      {},
      { options: { timeouts: { body: "500ms" } } },
    );
    const client = connect();
    client.socket.pause();
    client.write(request("/v2/x"));
    await eventually("it is broken off", () => lines.some(({ msg }) => msg === "request"));
    expect(lines.find(({ msg }) => msg === "request")).toMatchObject({ status: 200, complete: false });
    expect(sent?.bytesWritten).toBeLessThan(size / 2);
  });
});

test("a request's and a response's fields keep their order, spelling, number and bytes", async () => {
  const lines = [
    "X-Dup: 1",
    "x-dup: 2",
    "X-B: b",
    "X-DUP: 3",
    "Cookie: a=1",
    "cookie: b=2",
    "X-Latin: \xe4\xff",
    "X-Empty: ",
  ];
  const own = ["Set-Cookie: a=1; Path=/", "set-cookie: b=2", "Server: odd/1", "SET-COOKIE: a=1", "X-Latin: \xe4\xff"];
  const { upstream, connect } = await stageRaw(
    (socket) => void socket.write(response("ok", `${own.join("\r\n")}\r\n`), "latin1"),
  );
  const { rawHeaders } = await connect().ask(request("/v2/x", { fields: `${lines.join("\r\n")}\r\n` }));
  const received = upstream.bytes().split("\r\n");
  expect(received.filter((line) => lines.includes(line))).toEqual(lines);
  const seen = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : []));
  expect(seen.filter((line) => own.includes(line))).toEqual(own);
  const names = received.map((line) => line.split(":")[0]);
  for (const name of ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Via", "X-Request-Id"]) {
    expect(names.filter((other) => other === name)).toHaveLength(1);
  }
});

test("a WebSocket handshake goes to the upstream as an ordinary request, so no client hears of success", async () => {
  const { upstream, connect } = await stageRaw(
    (socket) => void socket.write(response("no", "", "426 Upgrade Required")),
  );
  const client = connect();
  const fields =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  expect(await client.ask(request("/v2/x", { fields }))).toMatchObject({ status: 426, body: "no" });
  expect(upstream.bytes()).not.toMatch(/^(?:upgrade|connection: upgrade)/im);
  await within("the connection ends", client.closed);
});

test("a client over HTTP/2 gets the upstream's response, and its body goes there", async () => {
  const authority = new Authority(cleanup);
  const { key, cert } = authority.issue();
  const upstream = await startUpstream((_req, res, body) => void res.setHeader("Set-Cookie", ["a=1", "b=2"]).end(body));
  cleanup(() => upstream.close());
  const server = { http2: true, https: { key, cert } } as NonNullable<TestAppOptions["server"]>;
  const { port } = await stage(upstream.url, {}, { server });
  const client = new Http2Client(port, authority.cert, cleanup);
  const answer = await client.ask({ method: "POST", fields: { "content-type": "odd" }, body: "hi" });
  expect(answer).toMatchObject({ status: 200, body: "hi" });
  expect(valuesOf(answer.rawHeaders, "set-cookie")).toEqual(["a=1", "b=2"]);
  expectContractFields(answer, { limit: 100, remaining: 99 }, (name) => name.toLowerCase());
  expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "X-Forwarded-Proto")).toEqual(["https"]);
});

test("inject reaches the upstream", async () => {
  const { app } = await stageRaw(ok);
  const { statusCode, body, headers } = await app.inject({ url: "/v2/x", headers: { authorization: "Bearer t" } });
  expect({ statusCode, body }).toEqual({ statusCode: 200, body: "ok" });
  expect(headers["ratelimit-remaining"]).toBe("99");
});

test("an app that closes closes its idle connections to the upstream", async () => {
  const { app, upstream, connect } = await stageRaw(ok);
  await connect().ask(request("/v2/x"));
  expect(upstream.sockets.size).toBe(1);
  await app.close();
  // Before an idle connection would be closed anyway, after 4 s.
  await eventually("they are closed", () => upstream.sockets.size === 0, 3_000);
});
