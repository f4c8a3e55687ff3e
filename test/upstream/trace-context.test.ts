// W3C trace context goes through the gateway as it came, from anyone, over HTTP/1.1 and HTTP/2; the log line of a request
// names its trace and its id, so that one leads to the other.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, stageHttp } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;

/** The lines of the requests so far, once there are so many. */
async function requestLines(gateway: TestGateway, count: number) {
  const lines = () => gateway.logLines.filter(({ msg }) => msg === "request");
  await eventually(`${count} requests are logged`, () => lines().length === count);
  return lines();
}

test("trace context reaches the upstream as it came, in its lines, order and spelling, and the log has both ids", async () => {
  const { upstream, connect, gateway } = await stageHttp(cleanup);
  const client = connect();
  const lines = [
    "TraceParent",
    traceparent,
    "tracestate",
    "congo=t61rcWkgMzE",
    "TraceState",
    "rojo=00f067aa0ba902b7,,",
  ];
  const fields = `${lines[0]}: ${lines[1]}\r\n${lines[2]}: ${lines[3]}\r\n${lines[4]}: ${lines[5]}\r\n`;
  expect((await client.ask(request("/v2/x", { fields }))).status).toBe(200);
  const rawHeaders = upstream.received[0]?.rawHeaders ?? [];
  const first = rawHeaders.indexOf("TraceParent");
  expect(rawHeaders.slice(first, first + 6)).toEqual(lines);
  const [line] = await requestLines(gateway, 1);
  expect(line).toMatchObject({ traceId, id: valuesOf(rawHeaders, "X-Request-Id")[0] });
});

test("what is no valid trace context passes as well, and the log does not believe it", async () => {
  const { upstream, connect, gateway } = await stageHttp(cleanup);
  const client = connect().write(request("/v2/x", { fields: "traceparent: 00-nonsense\r\ntracestate: \x80\r\n" }));
  expect((await client.read()).status).toBe(200);
  const rawHeaders = upstream.received[0]?.rawHeaders ?? [];
  expect(valuesOf(rawHeaders, "traceparent")).toEqual(["00-nonsense"]);
  expect(valuesOf(rawHeaders, "tracestate")).toEqual(["\x80"]);
  expect((await requestLines(gateway, 1))[0]).toMatchObject({ traceId: null });
});

test("a request that is refused is found by its trace too", async () => {
  const { connect, gateway } = await stageHttp(cleanup);
  const client = connect().write(`GET /v2/x HTTP/1.1\r\nHost: api.test\r\ntraceparent: ${traceparent}\r\n\r\n`);
  expect((await client.read()).status).toBe(401);
  expect((await requestLines(gateway, 1))[0]).toMatchObject({ traceId, status: 401, problem: "no_token" });
});

test("over HTTP/2 it is the same", async () => {
  const { ca, overrides } = withTls();
  const { upstream, gateway } = await stageHttp(cleanup, undefined, overrides);
  const fields = { traceparent, tracestate: ["congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7"] };
  expect((await new Http2Client(gateway.traffic.port, ca, cleanup).ask({ fields })).status).toBe(200);
  const rawHeaders = upstream.received[0]?.rawHeaders ?? [];
  expect(valuesOf(rawHeaders, "traceparent")).toEqual([traceparent]);
  expect(valuesOf(rawHeaders, "tracestate")).toEqual(fields.tracestate);
  expect((await requestLines(gateway, 1))[0]).toMatchObject({ traceId, id: valuesOf(rawHeaders, "X-Request-Id")[0] });
});
