// What @fastify/http-proxy does wrong with its own handler, one test for each, against the gateway that uses it
// without. What it does wrong with fields is in stock-defects' neighbours: test/upstream/hop-by-hop.test.ts and
// test/upstream/origin-fields.test.ts.
import { METHODS } from "node:http";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, inFewTurns, within } from "../support/eventually.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";
import { deadUrl, failingUpstreams } from "../support/unavailable.ts";

const cleanup = useCleanup();

describe("failing upstreams", () => {
  test("a 503 is passed on at once, with its Retry-After, after one hit", async () => {
    const { upstream, connect } = await stageHttp(cleanup, (_req, res) => {
      res.writeHead(503, { "Retry-After": "7" }).end("down");
    });
    const client = connect();
    client.write(request("/v2/x"));
    const { status, rawHeaders, body } = await client.read();
    expect({ status, body }).toEqual({ status: 503, body: "down" });
    expect(valuesOf(rawHeaders, "Retry-After")).toEqual(["7"]);
    expect(upstream.hits()).toBe(1);
  });

  test.each(failingUpstreams)("an upstream that %s is a 502, and the answer names no address", async (_, misbehave) => {
    const url = misbehave === null ? deadUrl : null;
    const { upstream, connect } = await stageRaw(
      cleanup,
      (socket) => misbehave?.(socket),
      url === null ? {} : { upstream: { url } },
    );
    const client = connect();
    client.write(request("/v2/x"));
    const answer = await client.read();
    expect(answer.status).toBe(502);
    expect(JSON.stringify(answer)).not.toMatch(/127\.0\.0\.1|localhost|ECONN/);
    expect(JSON.stringify(answer)).not.toContain(`${upstream.port}`);
  });

  test("a client that leaves before the response cancels the upstream's work at once", async () => {
    const { upstream, connect } = await stageRaw(cleanup, () => {});
    const client = connect();
    client.write(request("/v2/x"));
    await eventually("the request is at the upstream", () => upstream.bytes() !== "");
    const [carrying] = upstream.sockets;
    client.destroy();
    await inFewTurns("the upstream is let go", () => carrying?.destroyed === true);
  });
});

describe("requests that were refused or broken", () => {
  test.each([
    ["Keep-Alive", "Keep-Alive: timeout=5\r\nConnection: Keep-Alive\r\n"],
    ["a lone Upgrade", "Upgrade: h2c\r\n"],
    [
      "an Upgrade to h2c",
      "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    ],
  ])("a request with %s is served", async (_, fields) => {
    const { upstream, connect } = await stageHttp(cleanup);
    const client = connect();
    client.write(request("/v2/x", { fields }));
    expect((await client.read()).status).toBe(200);
    const names = upstream.received[0]?.rawHeaders.filter((_name, i) => i % 2 === 0) ?? [];
    for (const name of ["Keep-Alive", "Upgrade", "HTTP2-Settings"]) expect(names).not.toContain(name);
  });

  test("100 Continue is sent when the request has been let through, and then the answer", async () => {
    const { upstream, connect } = await stageHttp(cleanup, (_req, res, body) => void res.end(body));
    const client = connect();
    client.write(request("/v2/x", { method: "POST", fields: "Expect: 100-continue\r\nContent-Length: 2\r\n" }));
    expect((await client.read()).status).toBe(100);
    client.write("hi");
    expect(await client.read()).toMatchObject({ status: 200, body: "hi" });
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
    const { connect } = await stageHttp(cleanup);
    const client = connect();
    client.write(bytes);
    expect((await client.read()).status).toBe(status);
  });

  test("gzip, chunked is refused instead of forwarded as an empty body", async () => {
    const { upstream, connect } = await stageHttp(cleanup);
    const client = connect();
    client.write(
      request("/v2/x", { method: "POST", fields: "Transfer-Encoding: gzip, chunked\r\n", body: "0\r\n\r\n" }),
    );
    expect((await client.read()).status).toBe(501);
    expect(upstream.hits()).toBe(0);
  });

  const methods = METHODS.filter((method) => method !== "CONNECT" && method !== "TRACE");
  test.each(methods)("%s passes, with and without a body", async (method) => {
    const { upstream, connect } = await stageHttp(cleanup);
    const client = connect();
    for (const body of ["", "hi"]) {
      client.write(request("/v2/x", { method, body, fields: body === "" ? "" : "Content-Length: 2\r\n" }));
      expect((await client.read({ method })).status).toBe(200);
      expect(upstream.received.at(-1)).toMatchObject({ method, body: Buffer.from(body) });
    }
  });

  test.each(["text/plain", "application/json", 'application/x-odd; q=""', "nonsense", ""])(
    "a body of the type %j passes as it is",
    async (type) => {
      const { upstream, connect } = await stageHttp(cleanup);
      const client = connect();
      const fields = `Content-Type: ${type}\r\nContent-Length: 9\r\n`;
      client.write(request("/v2/x", { method: "POST", fields, body: "{not json" }));
      expect((await client.read()).status).toBe(200);
      expect(upstream.received[0]?.body.toString()).toBe("{not json");
      expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "Content-Type")).toEqual([type]);
    },
  );

  test("text/plain is neither held back nor capped at 1 MiB", async () => {
    const size = 3 * 1024 * 1024;
    const { upstream, connect } = await stageHttp(cleanup);
    const client = connect();
    client.write(
      request("/v2/x", { method: "POST", fields: `Content-Type: text/plain\r\nContent-Length: ${size}\r\n` }),
    );
    client.write("x");
    await eventually("the head is at the upstream before the body is whole", () => upstream.hits() === 1);
    client.write("x".repeat(size - 1));
    expect((await client.read()).status).toBe(200);
    expect(upstream.received[0]?.body.length).toBe(size);
  });
});

describe("targets", () => {
  const query = "?a=%2F&a=b+c&&x[]={}|^`\"<>'";
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
    "/v2/%7e%7E%zz%",
    "/V2/X",
    "/v2/x?",
    "/v2/x??y",
    `/v2/x${query}`,
    "/v2/x?//../..\\#",
    '/v2/a|b^c`d"e<f>g',
  ])("%j arrives byte for byte", async (target) => {
    const { upstream, connect } = await stageRaw(cleanup, (socket) => void socket.write(response("ok")));
    const client = connect();
    client.write(request(target));
    expect((await client.read()).status).toBe(200);
    expect(upstream.bytes().split("\r\n")[0]).toBe(`GET ${target} HTTP/1.1`);
  });

  test.each([
    ["http://other.test/v2/x?y", "/v2/x?y", "other.test"],
    ["HTTP://other.test:8080/v2//x", "/v2//x", "other.test:8080"],
  ])("absolute form %s goes to the same upstream as %s, with its own authority as Host", async (target, path, host) => {
    const { upstream, connect } = await stageHttp(cleanup);
    const client = connect();
    client.write(request(target));
    expect((await client.read()).status).toBe(200);
    expect(upstream.received[0]?.target).toBe(path);
    expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "Host")).toEqual([host]);
  });

  test("/foo../bar outside of the routes passes when what is unmatched is proxied", async () => {
    const { upstream, connect } = await stageHttp(cleanup, undefined, { unmatched: "proxy" });
    const client = connect();
    client.write(request("/foo../bar"));
    expect((await client.read()).status).toBe(200);
    expect(upstream.received[0]?.target).toBe("/foo../bar");
  });

  test.each(["reject", "proxy"] as const)("OPTIONS * never becomes /* (unmatched: %s)", async (unmatched) => {
    const { upstream, connect } = await stageHttp(cleanup, undefined, { unmatched });
    const client = connect();
    client.write(request("*", { method: "OPTIONS" }));
    expect((await client.read({ method: "OPTIONS" })).status).toBe(204);
    expect(upstream.hits()).toBe(0);
  });
});

test("an upgrade nobody tunnels is served as a plain request, and its connection ends", async () => {
  const { connect } = await stageHttp(cleanup);
  const client = connect();
  client.write(request("/v2/x", { fields: "Connection: Upgrade\r\nUpgrade: irc\r\n" }));
  expect((await client.read()).status).toBe(200);
  await within("the connection ends", client.closed);
});
