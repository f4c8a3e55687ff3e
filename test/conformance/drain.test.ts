// How the gateway leaves: readiness first, then no new connections, then what is in flight, and never longer than it is
// given. Those tests that wait run at the same time.
import { connect as connectSocket } from "node:net";
import { expect, test, vi } from "vitest";
import { firstRequestMs } from "../../src/transport/http1/http1-connection.ts";
import { type Cleanup, cleanupOf, useCleanup } from "../support/cleanup.ts";
import { eventually, soonMs, within } from "../support/eventually.ts";
import type { Overrides, TestGateway } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";

const ofFile = useCleanup();
/** Longer than any test lasts: a drain that ends within one ends by itself. */
const patientMs = 60_000;

/** An upstream that answers a target when the test says so, and everything else at once. */
async function start(
  drain: { delayMs?: number; timeoutMs?: number },
  overrides: Overrides = {},
  cleanup: Cleanup = ofFile,
) {
  const release = new Map<string, () => void>();
  const staged = await stageRaw(
    cleanup,
    (socket, data) => {
      const target = /^\S+ (\S+)/.exec(data.toString("latin1"))?.[1] ?? "";
      if (target.startsWith("/v2/held")) release.set(target, () => void socket.write(response(target)));
      else if (target.startsWith("/v2/begun")) {
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
        release.set(target, () => void socket.write("rest"));
      } else socket.write(response("ok"));
    },
    { ...overrides, drain },
  );
  const isHeld = (target: string) => eventually(`${target} is at the upstream`, () => release.has(target));
  return { ...staged, isHeld, release: (target: string) => release.get(target)?.() };
}

function isRefused(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectSocket(port, "127.0.0.1");
    socket.on("connect", () => resolve(false));
    socket.on("error", () => resolve(true));
    socket.on("close", () => socket.destroy());
  });
}

const readiness = async (gateway: TestGateway): Promise<number> => (await fetch(`${gateway.adminUrl}/readyz`)).status;
const liveness = async (gateway: TestGateway): Promise<number> => (await fetch(`${gateway.adminUrl}/livez`)).status;

/** A whole exchange: a connection that was opened before it has been accepted, and what was written there has arrived. */
async function exchangeOn(connection: RawConnection): Promise<RawConnection> {
  await connection.ask(request("/v2/x"));
  return connection;
}

test("readiness fails first, while new connections are served for the delay; then they are refused", async () => {
  holdTimers(ofFile);
  const { gateway, connect } = await start({ delayMs: patientMs, timeoutMs: patientMs });
  expect(await readiness(gateway)).toBe(200);
  const drained = gateway.drain();
  expect(await readiness(gateway)).toBe(503);
  expect(await liveness(gateway)).toBe(200);
  expect((await connect().ask(request("/v2/x"))).status).toBe(200);
  vi.advanceTimersByTime(patientMs);
  await within("the drain ends", drained);
  expect(await isRefused(gateway.traffic.port)).toBe(true);
  expect(await isRefused(gateway.admin.port)).toBe(true);
});

test("from the signal on every answer ends its connection, also while new ones are still accepted", async () => {
  holdTimers(ofFile);
  const { gateway, connect } = await start({ delayMs: patientMs, timeoutMs: patientMs });
  const kept = connect();
  expect(valuesOf((await kept.ask(request("/v2/x"))).rawHeaders, "Connection")).toEqual(["keep-alive"]);
  const drained = gateway.drain();
  for (const client of [kept, connect()]) {
    expect(valuesOf((await client.ask(request("/v2/x"))).rawHeaders, "Connection")).toEqual(["close"]);
    expect(await within("the connection ends", client.closed)).toBe("end");
  }
  vi.advanceTimersByTime(patientMs);
  await within("the drain ends", drained);
});

test.concurrent("a connection that was just opened when the listener closed is still served", async (context) => {
  const { gateway, connect } = await start({ timeoutMs: patientMs }, {}, cleanupOf(context));
  const client = connect();
  const other = await exchangeOn(connect());
  const drained = gateway.drain();
  expect(await within("the other ends", other.closed)).toBe("end");
  const { status, rawHeaders } = await client.ask(request("/v2/x"));
  expect({ status, connection: valuesOf(rawHeaders, "Connection") }).toEqual({ status: 200, connection: ["close"] });
  await within("the drain ends", drained, 2_000);
});

test.concurrent("what is in flight is answered after the listener is closed, says that its connection ends, and ends it", async (context) => {
  const { gateway, connect, isHeld, release } = await start({ timeoutMs: patientMs }, {}, cleanupOf(context));
  const client = connect().write(request("/v2/held"));
  await isHeld("/v2/held");
  const drained = gateway.drain();
  await eventually("new connections are refused", () => isRefused(gateway.traffic.port));
  release("/v2/held");
  const { status, rawHeaders, body } = await client.read();
  expect({ status, body }).toEqual({ status: 200, body: "/v2/held" });
  expect(valuesOf(rawHeaders, "Connection")).toEqual(["close"]);
  expect(await within("the connection ends", client.closed)).toBe("end");
  await within("the drain ends", drained, soonMs);
});

test.concurrent("a request that arrives on a connection that is still open is served, and told that it is the last", async (context) => {
  const { gateway, connect, isHeld, release } = await start({ timeoutMs: patientMs }, {}, cleanupOf(context));
  const client = connect().write(request("/v2/begun"));
  await isHeld("/v2/begun");
  expect(valuesOf((await client.readHead()).rawHeaders, "Connection")).toEqual(["keep-alive"]);
  const drained = gateway.drain();
  await eventually("new connections are refused", () => isRefused(gateway.traffic.port));
  client.write(request("/v2/late") + request("/v2/later"));
  release("/v2/begun");
  await eventually("the first is whole", () => client.rest.startsWith("halfrestHTTP/1.1 "));
  expect(client.rest).toMatch(/^halfrestHTTP\/1\.1 200 OK\r\n(.+\r\n)*Connection: close\r\n(.+\r\n)*\r\nok$/);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest.match(/HTTP\/1\.1/g)).toHaveLength(1);
  await within("the drain ends", drained, soonMs);
});

test.concurrent("an answer that had begun is finished, and its connection does not hold up the end", async (context) => {
  const { gateway, connect, isHeld, release } = await start({ timeoutMs: patientMs }, {}, cleanupOf(context));
  const client = connect().write(request("/v2/begun"));
  await isHeld("/v2/begun");
  await client.readHead();
  const drained = gateway.drain();
  await eventually("new connections are refused", () => isRefused(gateway.traffic.port));
  release("/v2/begun");
  expect(await within("the connection ends", client.closed, soonMs)).toBe("end");
  expect(client.rest).toBe("halfrest");
  await within("the drain ends", drained, soonMs);
});

test.concurrent("connections that wait for nothing do not hold up the end", async (context) => {
  const { gateway, connect } = await start({ timeoutMs: patientMs }, {}, cleanupOf(context));
  const [idle, silent] = [connect(), connect()];
  expect((await idle.ask(request("/v2/x"))).status).toBe(200);
  await within("the drain ends", gateway.drain(), 2_000);
  expect(await within("the idle one ends", idle.closed)).toBe("end");
  expect(await within("the silent one ends", silent.closed)).toBe("end");
});

test("a head that never ends is timed out during the drain as well, and does not hold up the end", async () => {
  holdTimers(ofFile);
  const { gateway, connect } = await start({ timeoutMs: 2 * patientMs }, { timeouts: { headMs: patientMs } });
  const client = connect().write("GET /v2/x HTTP/1.1\r\nHost:");
  await exchangeOn(connect());
  const drained = gateway.drain();
  await eventually("new connections are refused", () => isRefused(gateway.traffic.port));
  vi.advanceTimersByTime(patientMs);
  await within("the drain ends", drained);
  expect((await client.read()).status).toBe(408);
});

test.each([
  ["never answered", request("/v2/held")],
  ["answered by half", request("/v2/begun")],
  ["only half sent", "GET /v2/x HTTP/1.1\r\nHost:"],
  ["missing its body", request("/v2/held", { method: "POST", fields: "Content-Length: 9\r\n", body: "half" })],
])("a request that is %s is cut off when the time is over, and the drain ends", async (_, bytes) => {
  holdTimers(ofFile);
  const { gateway, connect } = await start({ timeoutMs: 5_000 });
  const client = connect().write(bytes);
  await exchangeOn(connect());
  const drained = gateway.drain();
  await eventually("new connections are refused", () => isRefused(gateway.traffic.port));
  expect(client.ending).toBeNull();
  vi.advanceTimersByTime(5_000);
  await within("the drain ends", drained);
  await within("the connection ends", client.closed);
  expect(client.rest).not.toContain("rest");
});

test.concurrent("pipelined requests before the end: the one in flight is answered, those behind it are not begun", async (context) => {
  const { gateway, connect, isHeld, release, upstream } = await start({ timeoutMs: patientMs }, {}, cleanupOf(context));
  const client = connect().write(request("/v2/held") + request("/v2/behind") + request("/v2/further"));
  await isHeld("/v2/held");
  const drained = gateway.drain();
  await eventually("new connections are refused", () => isRefused(gateway.traffic.port));
  release("/v2/held");
  expect((await client.read()).body).toBe("/v2/held");
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toBe("");
  expect(upstream.bytes()).not.toContain("/v2/behind");
  await within("the drain ends", drained, soonMs);
});

test.concurrent("an empty line behind a body is no request that a drain would wait for", async (context) => {
  const { gateway, connect } = await start({ timeoutMs: patientMs }, {}, cleanupOf(context));
  const client = connect();
  client.write(`${request("/v2/x", { method: "POST", fields: "Content-Length: 2\r\n", body: "hi" })}\r\n`);
  expect((await client.read()).status).toBe(200);
  const other = connect().write("\r\n");
  expect((await connect().ask(request("/elsewhere"))).status).toBe(404);
  await within("the drain ends", gateway.drain(), soonMs);
  expect([await client.closed, await other.closed]).toEqual(["end", "end"]);
});

test("empty lines that go on and on do not hold a drain up", async ({ onTestFinished }) => {
  const { gateway, connect } = await start({ timeoutMs: patientMs });
  const client = connect();
  expect((await client.ask(request("/v2/x"))).status).toBe(200);
  client.write("\r\n".repeat(10));
  const drip = setInterval(() => client.write("\r\n"), 50);
  onTestFinished(() => clearInterval(drip));
  expect((await connect().ask(request("/elsewhere"))).status).toBe(404);
  await within("the drain ends", gateway.drain());
});

test("a first request that arrives while the gateway stands still is served when it goes on", async () => {
  const { gateway, connect } = await start({ timeoutMs: patientMs });
  const client = connect();
  const other = await exchangeOn(connect());
  const drained = gateway.drain();
  // From now on, the first request of the client is awaited.
  await within("the other ends", other.closed);
  client.write(request("/v2/x"));
  const endMs = performance.now() + 2 * firstRequestMs;
  while (performance.now() < endMs);
  expect((await client.read()).status).toBe(200);
  await within("the drain ends", drained);
});
