// Several requests on one connection: answered in order, one at a time (RFC 9112, 9.3.2), and never past a last answer.
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, turns, within } from "../support/eventually.ts";
import { type Overrides, startTestGateway } from "../support/gateway.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { startUpstream, type TestUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const fields = "Host: a\r\nAuthorization: Bearer t\r\n";
const request = (target: string, method = "GET", more = ""): string =>
  `${method} ${target} HTTP/1.1\r\n${fields}${more}\r\n`;

/** An upstream that answers each target with its name when the test says so. */
async function start(overrides: Overrides = {}, respond?: Parameters<typeof startUpstream>[0]) {
  const held = new Map<string, ServerResponse>();
  const upstream = cleanup(await startUpstream(respond ?? ((req, res) => void held.set(req.url ?? "", res))));
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: { drain: { timeoutMs: 0 }, ...overrides },
  });
  cleanup(() => gateway.close());
  const client = cleanup(new RawConnection(gateway.traffic.port));
  const answer = async (target: string): Promise<void> => {
    await eventually(`${target} is at the upstream`, () => held.has(target));
    held.get(target)?.end(target);
  };
  return { upstream, gateway, client, answer };
}

const targets = (upstream: TestUpstream): string[] => upstream.received.map(({ target }) => target);

test("pipelined requests are answered in order, and each reaches the upstream after the one before was answered", async () => {
  const { client, gateway, upstream, answer } = await start();
  client.write(request("/v2/1", "POST", "Content-Length: 2\r\n").concat("hi", request("/v2/2"), request("/v2/3")));
  for (const seen of [1, 2, 3]) {
    const target = `/v2/${seen}`;
    await eventually(`${target} is at the upstream`, () => upstream.received.length === seen);
    // A second client's whole exchange: time enough for a request that was let through too early to arrive.
    expect((await fetchElsewhere(gateway.traffic.port)).status).toBe(404);
    expect(targets(upstream).at(-1)).toBe(target);
    await answer(target);
    expect((await client.read()).body).toBe(target);
  }
});

test("a pipelined request is charged when its turn comes, and its fields say so", async () => {
  const { client, answer } = await start({
    policies: [slidingPolicy({ limit: 2, windowMs: 60_000 })],
  });
  client.write(request("/v2/1") + request("/v2/2") + request("/v2/3"));
  await answer("/v2/1");
  await answer("/v2/2");
  const answers = [await client.read(), await client.read(), await client.read()];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
  expect(answers.map(({ rawHeaders }) => valuesOf(rawHeaders, "RateLimit-Remaining")[0])).toEqual(["1", "0", "0"]);
});

test("what is pipelined behind a last answer is neither charged nor forwarded", async () => {
  const { client, upstream, gateway, answer } = await start();
  client.write(request("/v2/1", "GET", "Connection: close\r\n") + request("/v2/2") + request("/v2/3"));
  await answer("/v2/1");
  const { body, rawHeaders } = await client.read();
  expect([body, valuesOf(rawHeaders, "Connection")]).toEqual(["/v2/1", ["close"]]);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toBe("");
  expect(targets(upstream)).toEqual(["/v2/1"]);
  const { headers } = await fetchElsewhere(gateway.traffic.port);
  expect(headers.get("RateLimit-Remaining")).toBe("99");
});

test("a request behind a refused body is part of that body, never a request", async () => {
  const { client, upstream } = await start();
  const inner = request("/v2/inner");
  client.write(`POST /v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: ${inner.length + 10}\r\n\r\n${inner}`);
  expect((await client.read()).status).toBe(401);
  client.write(`0123456789${request("/v2/after")}`);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toBe("");
  expect(upstream.received).toEqual([]);
});

test("bytes that are no request are answered after the request before them", async () => {
  const { client, answer } = await start();
  client.write(`${request("/v2/1")}nonsense\r\n\r\n`);
  await answer("/v2/1");
  expect(await client.read()).toMatchObject({ status: 200, body: "/v2/1" });
  expect((await client.read()).status).toBe(400);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toBe("");
});

test("a request whose body turns out broken while it waits is never forwarded", async () => {
  const { client, upstream, answer } = await start();
  client.write(`${request("/v2/1")}${request("/v2/2", "POST", "Transfer-Encoding: chunked\r\n")}2\r\nhi\r\nzz\r\n`);
  await answer("/v2/1");
  expect((await client.read()).status).toBe(200);
  expect((await client.read()).status).toBe(400);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(upstream.hits()).toBe(1);
});

test("a client that leaves with requests pipelined frees its upstream connection, and the others are never sent", async () => {
  const { client, upstream, gateway } = await start();
  client.write(request("/v2/1") + request("/v2/2") + request("/v2/3"));
  await eventually("the first is at the upstream", () => upstream.received.length === 1);
  client.destroy();
  await eventually("the connection is free", async () => (await upstreamConnections(gateway)).active === 0);
  expect(targets(upstream)).toEqual(["/v2/1"]);
});

test("a client that pipelines without end is answered in order, up to the last request that its connection may have", async () => {
  const { client, upstream, answer } = await start({ listen: { maxRequestsPerConnection: 100 } });
  client.write(Array.from({ length: 5_000 }, (_, i) => request(`/v2/${i + 1}`)).join(""));
  for (let i = 1; i <= 100; i += 1) {
    await answer(`/v2/${i}`);
    const response = await client.read();
    expect(response.body).toBe(`/v2/${i}`);
    expect(valuesOf(response.rawHeaders, "connection")).toEqual([i < 100 ? "keep-alive" : "close"]);
  }
  await within("the connection ends", client.closed);
  expect(targets(upstream)).toHaveLength(100);
});

test("large heads that are pipelined are all answered, in order, with bodies among them", async () => {
  const { client, upstream, answer } = await start();
  const large = `X-Large: ${"x".repeat(15_000)}\r\n`;
  const names = Array.from({ length: 60 }, (_, i) => `/v2/${i}`);
  const post = (name: string): string =>
    request(name, "POST", `${large}Content-Length: 20000\r\n`).concat("b".repeat(20_000));
  client.write(names.map((name, i) => (i % 7 === 3 ? post(name) : request(name, "GET", large))).join(""));
  for (const name of names) {
    await answer(name);
    expect((await client.read()).body).toBe(name);
  }
  expect(targets(upstream)).toEqual(names);
  expect(upstream.received.filter(({ body }) => body.length === 20_000)).toHaveLength(9);
});

test("heads of very many fields that are pipelined are all answered, since they are not parsed before there is room", async () => {
  const { client, upstream, answer } = await start();
  const many = Array.from({ length: 150 }, (_, i) => `a${i}:b\r\n`).join("");
  client.write(request("/v2/0", "GET", many));
  await eventually("the first is at the upstream", () => upstream.received.length === 1);
  client.write(Array.from({ length: 99 }, (_, i) => request(`/v2/${i + 1}`, "GET", many)).join(""));
  for (let i = 0; i < 100; i += 1) {
    await answer(`/v2/${i}`);
    expect(await client.read()).toMatchObject({ status: 200, body: `/v2/${i}` });
  }
  expect(targets(upstream)).toHaveLength(100);
});

test("requests that arrive while a large response is not read are answered when it has been", async () => {
  const size = 8 * 1024 * 1024;
  const { client, upstream } = await start(
    {},
    (req, res) => void res.end(req.url === "/v2/1" ? "l".repeat(size) : req.url),
  );
  client.write(request("/v2/1"));
  client.socket.pause();
  await eventually("the first is at the upstream", () => upstream.received.length === 1);
  const names = Array.from({ length: 30 }, (_, i) => `/v2/${i + 2}`);
  for (const name of names) {
    client.write(request(name, "POST", "Content-Length: 3000\r\n").concat("b".repeat(3_000)));
    await turns(5);
  }
  client.socket.resume();
  expect((await client.read()).body).toHaveLength(size);
  for (const name of names) expect((await client.read()).body).toBe(name);
});

test("an upgrade that is declined is the last request of its connection, so nothing behind it is taken for one", async () => {
  const { client, upstream, answer } = await start();
  const upgrade = request("/v2/1", "GET", "Connection: Upgrade\r\nUpgrade: irc\r\n");
  const hidden = request("/v2/hidden");
  client.write(upgrade + request("/v2/2", "POST", `Content-Length: ${hidden.length}\r\n`));
  await eventually("the first is at the upstream", () => upstream.received.length === 1);
  client.write(hidden);
  await answer("/v2/1");
  const response = await client.read();
  expect(response.body).toBe("/v2/1");
  expect(valuesOf(response.rawHeaders, "connection")).toEqual(["close"]);
  await within("the connection ends", client.closed);
  expect(targets(upstream)).toEqual(["/v2/1"]);
});

/** A request that is charged nothing and reaches nobody. */
function fetchElsewhere(port: number): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}/elsewhere`);
}
