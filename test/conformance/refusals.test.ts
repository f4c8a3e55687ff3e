// The budget for refusals that spend no quota: as many refusals as the budget, then 429 or a closed connection, while a request
// under a route from the same address is served. What every carrier does is in every-carrier.test.ts.
import { describe, expect, test } from "vitest";
import { call } from "../ext-auth/grpc/client.ts";
import { shouldRateLimit } from "../ext-auth/grpc/protocol.ts";
import { rateLimitRequest } from "../ext-auth/grpc/requests.ts";
import { stageGrpc } from "../ext-auth/grpc/stage.ts";
import { startTestApp } from "../fastify/app.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { expectContractFields, expectOwnAnswer } from "../support/contract-fields.ts";
import { Http2Client } from "../support/http2-client.ts";
import { metric } from "../support/metrics.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const tls = useTls();
const refusals = { perSecond: 1, burst: 5 };
const tooMany = "Too many requests, please try again later.";
const served = (socket: { write(bytes: string): unknown }): void => void socket.write(response("served"));

const chunked = (target: string): string =>
  `POST ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`;

describe("HTTP/1.1", () => {
  test.each([
    ["a path under no route", request("/health"), request("/v2/x"), 404],
    ["in chunks, with an Upgrade", chunked("/health"), chunked("/v2/x"), 404],
    ["a path that is ambiguous", request("/../x"), request("/v2/%20"), 400],
  ])("%s", async (_, refused, charged, status) => {
    const clock = new FakeClock();
    const { gateway, connect } = await stageRaw(cleanup, served, { refusals }, clock);
    const ask = async (bytes: string) => {
      return await connect().ask(bytes);
    };
    for (let i = 0; i < 5; i += 1) expect((await ask(refused)).status).toBe(status);
    const answer = await ask(refused);
    expect(answer.status).toBe(429);
    expectOwnAnswer(answer, "Too Many Requests", tooMany);
    expectContractFields(answer, { limit: 100, remaining: 100 });
    expect(valuesOf(answer.rawHeaders, "Retry-After")).toEqual(["1"]);
    // A neighbour behind the same address.
    expect((await ask(charged)).status).toBe(200);
    clock.advance(1000);
    expect((await ask(refused)).status).toBe(status);
    expect((await ask(refused)).status).toBe(429);
    const refusalsOf = (reason: string) => metric(gateway, `headgate_refusals_total{reason="${reason}"}`);
    expect(await refusalsOf("too_many_refusals")).toBe(2);
    expect(await metric(gateway, 'headgate_decisions_total{policy="per-ip",outcome="observed"}')).toBe(8);
    // Of the first second, 5 lines of refusals are logged.
    const line = gateway.logLines.find(({ problem }) => problem === "too_many_refusals");
    expect(line).toMatchObject({ status: 429, client: "127.0.0.1", route: null, decision: "observed", remaining: 99 });
  });

  test("bytes that cannot be parsed: beyond the budget the connection is closed without an answer", async () => {
    const { gateway, connect } = await stageRaw(cleanup, served, { refusals }, new FakeClock());
    for (let i = 0; i < 5; i += 1) {
      expect((await connect().ask("\0\r\n\r\n")).status).toBe(400);
    }
    for (let i = 0; i < 3; i += 1) {
      const client = connect().write("\0\r\n\r\n");
      await client.closed;
      expect(client.receivedBytes).toBe(0);
    }
    expect(await metric(gateway, 'headgate_refusals_total{reason="too_many_refusals"}')).toBe(3);
    expect(await metric(gateway, 'headgate_requests_total{route="none",method="other",status_class="none"}')).toBe(3);
    expect((await connect().ask(request("/v2/x"))).status).toBe(200);
  });
});

test("the log shows the quota of a client whose connection is closed without an answer", async () => {
  const { gateway, connect } = await stageRaw(
    cleanup,
    served,
    { refusals: { perSecond: 1, burst: 1 } },
    new FakeClock(),
  );
  for (let i = 0; i < 2; i += 1) {
    const client = connect().write("\0\r\n\r\n");
    await client.closed;
  }
  const closed = gateway.logLines.find(({ problem }) => problem === "too_many_refusals");
  expect(closed).toMatchObject({ status: 0, decision: "observed", remaining: 100 });
});

test.each([
  ["bytes above ASCII in the target", { path: "/v2/\xe4" }, 400],
  ["a scheme with a URL", { fields: { ":scheme": "http://evil.test/?" } }, 400],
])("HTTP/2 with %s, which over HTTP/1.1 is no request", async (_, refused, status) => {
  const { overrides, ca } = tls({ refusals });
  const { gateway, upstream } = await stageRaw(cleanup, served, overrides, new FakeClock());
  const client = new Http2Client(gateway.traffic.port, ca, cleanup);
  for (let i = 0; i < 5; i += 1) expect((await client.ask(refused)).status).toBe(status);
  const answer = await client.ask(refused);
  expect(answer.status).toBe(429);
  expectContractFields(answer, { limit: 100, remaining: 100 }, (name) => name.toLowerCase());
  expect(upstream.bytes()).toBe("");
  expect((await client.ask()).status).toBe(200);
});

test("a check of the quota alone, under no route, passes any number of times", async () => {
  const { client } = await stageGrpc(cleanup, { refusals });
  for (let i = 0; i < 20; i += 1) {
    const { message } = await call<{ overall_code: string }>(
      client,
      shouldRateLimit,
      rateLimitRequest({ path: "/health" }),
    );
    expect(message?.overall_code).toBe("OK");
  }
});

test("the plugin: bytes that cannot be parsed, and paths that are left to the app", async () => {
  const options = { refusals, routes: ["/v2/"], policies: [{ name: "per-ip", limit: 100, window: "60s" }] } as const;
  const { connect } = await startTestApp(cleanup, {
    clock: new FakeClock(),
    options,
    routes: (app) => void app.all("/*", async () => "the app"),
  });
  for (let i = 0; i < 5; i += 1) {
    expect((await connect().ask("\0\r\n\r\n")).status).toBe(400);
  }
  const client = connect().write("\0\r\n\r\n");
  await client.closed;
  expect(client.receivedBytes).toBe(0);
  const another = connect();
  for (const target of ["/v2/x", "/left", "/left/too"]) {
    expect((await another.ask(request(target))).status).toBe(200);
  }
});
