// What is forwarded as it is, and what becomes of it when the upstream or the client fails: the same through the gateway and
// through an app with the plugin. Each case is one that @fastify/http-proxy gets wrong with its own handler. What it does
// wrong with fields is in test/conformance/requests/rfc9110.ts and test/upstream/origin-fields.test.ts.
import { METHODS } from "node:http";
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { startTestApp } from "../fastify/app.ts";
import { type Cleanup, useCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually, inFewTurns, within } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { pour } from "../support/slow-peer.ts";
import { request, response, stageHttp as stageServed } from "../support/stage.ts";
import { deadUrl, failingUpstreams } from "../support/unavailable.ts";
import { startRawUpstream, startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

interface Forwarder {
  readonly lines: readonly Record<string, unknown>[];
  connect(): RawConnection;
  /** The text of a scrape. */
  metrics(): Promise<string>;
}

async function startGateway(cleanup: Cleanup, upstreamUrl: string): Promise<Forwarder> {
  const gateway = cleanup(await startTestGateway({ upstreamUrl, overrides: { drain: { timeoutMs: 0 } } }));
  return {
    lines: gateway.logLines,
    connect() {
      return cleanup(new RawConnection(gateway.traffic.port));
    },
    metrics: async () => (await fetch(`${gateway.adminUrl}/metrics`)).text(),
  };
}

async function startPlugin(cleanup: Cleanup, url: string): Promise<Forwarder> {
  const stage = await startTestApp(cleanup, { options: { routes: ["/v1/", "/v2/"], upstream: { url } } });
  return { ...stage, metrics: async () => (await stage.app.headgate.metrics()).body };
}

describe.each([
  ["the gateway", startGateway],
  ["the plugin", startPlugin],
])("%s", (name, start) => {
  async function stageHttp(...[respond]: Parameters<typeof startUpstream>) {
    const upstream = cleanup(await startUpstream(respond));
    return { upstream, ...(await start(cleanup, upstream.url)) };
  }
  async function stageRaw(onData: (socket: Socket, data: Buffer) => void) {
    const upstream = cleanup(await startRawUpstream(onData));
    return { upstream, ...(await start(cleanup, upstream.url)) };
  }

  test("a 503 is passed on at once, with its Retry-After, after one hit", async () => {
    const { upstream, connect } = await stageHttp(
      (_req, res) => void res.writeHead(503, { "Retry-After": "7" }).end("down"),
    );
    const { status, rawHeaders, body } = await connect().ask(request("/v2/x"));
    expect({ status, body }).toEqual({ status: 503, body: "down" });
    expect(valuesOf(rawHeaders, "Retry-After")).toEqual(["7"]);
    expect(upstream.hits()).toBe(1);
  });

  test.each(failingUpstreams)(
    "an upstream that %s is a 502 after one attempt, which names no address, and is logged once",
    async (_, misbehave) => {
      let hits = 0;
      const upstream = await startRawUpstream((socket) => {
        hits += 1;
        misbehave?.(socket);
      });
      cleanup(() => upstream.close());
      const { connect, lines } = await start(cleanup, misbehave === null ? deadUrl : upstream.url);
      const answer = await connect().ask(request("/v2/x"));
      expect(answer.status).toBe(502);
      expect(JSON.stringify(answer)).not.toMatch(/127\.0\.0\.1|localhost|ECONN|UND_ERR/);
      // Not as a part of an id or of a time.
      expect(JSON.stringify(answer)).not.toMatch(new RegExp(`\\b${upstream.port}\\b`));
      expectContractFields(answer, { limit: 100, remaining: 99 });
      expect(hits).toBe(misbehave === null ? 0 : 1);
      await eventually("the request is logged", () => lines.some(({ msg }) => msg === "request"));
      expect(lines.filter(({ msg }) => msg === "upstream failed")).toHaveLength(1);
      expect(lines.filter(({ msg }) => /errored|fetching/.test(String(msg)))).toEqual([]);
    },
  );

  test.each([
    ["before the response", request("/v2/held")],
    ["within the response", request("/v2/begun")],
    ["within its own body", request("/v2/held", { method: "POST", fields: "Content-Length: 9\r\n", body: "half" })],
  ])("a client that leaves %s cancels the request at the upstream at once", async (_, bytes) => {
    const { upstream, connect, metrics } = await stageRaw((socket, data) => {
      if (data.includes("/v2/begun")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
    });
    const client = connect().write(bytes);
    await eventually("it is at the upstream", () => upstream.bytes().includes("\r\n\r\n"));
    if (bytes.includes("begun")) await client.readHead();
    const [carrying] = upstream.sockets;
    client.destroy();
    await inFewTurns("its connection is closed", () => carrying?.destroyed === true);
    expect(await metrics()).toContain('headgate_upstream_connections{state="active"} 0');
  });

  test("a response that breaks off breaks off for the client, before its first byte as well", async () => {
    const { connect } = await stageRaw((socket, data) => {
      socket.end(`HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n${data.includes("half") ? "half" : ""}`);
    });
    for (const target of ["/v2/half", "/v2/none"]) {
      const client = connect().write(request(target));
      await expect(client.read()).rejects.toThrow("connection ended");
    }
  });

  test("a response without a length that the upstream resets does not end for the client as complete", async () => {
    const { connect, lines } = await stageRaw((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\nthe first part", () => socket.resetAndDestroy());
    });
    const client = connect().write(request("/v2/x"));
    await within("the connection ends", client.closed);
    expect(client.rest.endsWith("\r\n0\r\n\r\n")).toBe(false);
    expect(JSON.stringify(lines)).toContain('"reason":"reset"');
  });

  test("a head that comes long before its body is passed on at once", async () => {
    const { connect } = await stageRaw((socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"));
    const client = connect().write(request("/v2/x"));
    expect((await client.readHead()).status).toBe(200);
  });

  test("a response that is larger than every buffer arrives whole", async () => {
    const size = 16 * 1024 * 1024;
    const { connect } = await stageRaw((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
      pour(socket, size);
    });
    expect((await connect().ask(request("/v2/x"))).body.length).toBe(size);
  });

  const methods = METHODS.filter((method) => method !== "CONNECT" && method !== "TRACE");
  test("each method passes, with and without a body", async () => {
    const { upstream, connect } = await stageHttp();
    for (const method of methods) {
      const client = connect();
      for (const body of ["", "hi"]) {
        client.write(request("/v2/x", { method, body, fields: body === "" ? "" : "Content-Length: 2\r\n" }));
        expect([method, (await client.read({ method })).status]).toEqual([method, 200]);
        expect(upstream.received.at(-1)).toMatchObject({ method, body: Buffer.from(body) });
      }
      client.destroy();
    }
    expect(upstream.hits()).toBe(2 * methods.length);
  });

  test.each(["text/plain", "application/json", 'application/x-odd; q=""', "nonsense", ""])(
    "a body of the type %j passes as it is",
    async (type) => {
      const { upstream, connect } = await stageHttp();
      const client = connect();
      const fields = `Content-Type: ${type}\r\nContent-Length: 9\r\n`;
      expect((await client.ask(request("/v2/x", { method: "POST", fields, body: "{not json" }))).status).toBe(200);
      expect(upstream.received[0]?.body.toString()).toBe("{not json");
      expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "Content-Type")).toEqual([type]);
    },
  );

  test("text/plain is neither held back nor capped at 1 MiB", async () => {
    const size = 3 * 1024 * 1024;
    const { upstream, connect } = await stageHttp();
    const client = connect();
    client.write(
      request("/v2/x", { method: "POST", fields: `Content-Type: text/plain\r\nContent-Length: ${size}\r\n` }),
    );
    client.write("x");
    await eventually("the head is at the upstream before the body is whole", () => upstream.hits() === 1);
    expect((await client.ask("x".repeat(size - 1))).status).toBe(200);
    expect(upstream.received[0]?.body.length).toBe(size);
  });

  test("100 Continue is sent when the request has been let through, and then the answer", async () => {
    const { upstream, connect } = await stageHttp((_req, res, body) => void res.end(body));
    const client = connect();
    client.write(request("/v2/x", { method: "POST", fields: "Expect: 100-continue\r\nContent-Length: 2\r\n" }));
    expect((await client.read()).status).toBe(100);
    expect(await client.ask("hi")).toMatchObject({ status: 200, body: "hi" });
    expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "Expect")).toEqual([]);
  });

  test.each([
    ["refused", "POST /v2/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", 401],
    [
      "sent by HTTP/1.0",
      "POST /v2/x HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
      200,
    ],
    ["sent without a body", request("/v2/x", { fields: "Expect: 100-continue\r\n" }), 200],
  ])("no 100 Continue goes out for a request that is %s", async (_, bytes, status) => {
    const { connect } = await stageHttp();
    expect((await connect().ask(bytes)).status).toBe(status);
  });

  test.each([
    ["Keep-Alive", "Keep-Alive: timeout=5\r\nConnection: Keep-Alive\r\n"],
    ["a lone Upgrade", "Upgrade: h2c\r\n"],
    [
      "an Upgrade to h2c",
      "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    ],
  ])("a request with %s is served", async (_, fields) => {
    const { upstream, connect } = await stageHttp();
    expect((await connect().ask(request("/v2/x", { fields }))).status).toBe(200);
    const names = upstream.received[0]?.rawHeaders.filter((_name, i) => i % 2 === 0) ?? [];
    for (const name of ["Keep-Alive", "Upgrade", "HTTP2-Settings"]) expect(names).not.toContain(name);
  });

  test("an upgrade that nobody tunnels is served as a plain request, and its connection ends", async () => {
    const { connect } = await stageHttp();
    const client = connect().write(request("/v2/x", { fields: "Connection: Upgrade\r\nUpgrade: irc\r\n" }));
    expect((await client.read()).status).toBe(200);
    await within("the connection ends", client.closed);
  });

  test("gzip, chunked is refused instead of forwarded as an empty body", async () => {
    const { upstream, connect } = await stageHttp();
    const client = connect();
    const fields = "Transfer-Encoding: gzip, chunked\r\n";
    expect((await client.ask(request("/v2/x", { method: "POST", fields, body: "0\r\n\r\n" }))).status).toBe(501);
    expect(upstream.hits()).toBe(0);
  });

  const query = "?a=%2F&a=b+c&&x[]={}|^`\"<>'";
  // The router of an app refuses one that it cannot decode.
  const undecodable = name === "the gateway" ? ["/v2/%7e%7E%zz%"] : [];
  test.each([
    "//v2/x",
    "/v2//x",
    "/v1/./b",
    "/v2/foo../bar",
    "/v2/..foo/bar",
    "/v2/a\\b",
    "/v2/{id}",
    "/v2/x#y",
    "/v2/x;p=1",
    ...undecodable,
    "/V2/X",
    "/v2/x?",
    "/v2/x??y",
    `/v2/x${query}`,
    "/v2/x?//../..\\#",
    '/v2/a|b^c`d"e<f>g',
  ])("%j arrives byte for byte", async (target) => {
    const { upstream, connect } = await stageRaw((socket) => void socket.write(response("ok")));
    expect((await connect().ask(request(target))).status).toBe(200);
    expect(upstream.bytes().split("\r\n")[0]).toBe(`GET ${target} HTTP/1.1`);
  });

  test.each([
    ["http://other.test/v2/x?y", "/v2/x?y", "other.test"],
    ["HTTP://other.test:8080/v2//x", "/v2//x", "other.test:8080"],
  ])("absolute form %s goes to the same upstream as %s, with its own authority as Host", async (target, path, host) => {
    const { upstream, connect } = await stageHttp();
    expect((await connect().ask(request(target))).status).toBe(200);
    expect(upstream.received[0]?.target).toBe(path);
    expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "Host")).toEqual([host]);
  });
});

test("/foo../bar outside of the routes passes when what is unmatched is proxied, and OPTIONS * never becomes /*", async () => {
  const { upstream, connect } = await stageServed(cleanup, undefined, { unmatched: "proxy" });
  const client = connect();
  expect((await client.ask(request("/foo../bar"))).status).toBe(200);
  expect((await client.ask(request("*", { method: "OPTIONS" }), { method: "OPTIONS" })).status).toBe(204);
  expect(upstream.received.map(({ target }) => target)).toEqual(["/foo../bar"]);
});
