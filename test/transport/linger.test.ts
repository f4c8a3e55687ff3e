// A client that still sends a request which has been answered: it is read and ignored, so that it sees the answer; never for
// longer than `timeouts.linger`, and at nobody else's cost.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { closeMs, lingerSilenceMs } from "../../src/core/http-bounds.ts";
import { endAndLinger } from "../../src/transport/socket-transport.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, soonMs, turns, within } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { listen } from "../support/loopback-server.ts";
import { slidingPolicy } from "../support/policy.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request, stageHttp } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const policies = (limit: number) => [slidingPolicy({ limit, windowMs: 60_000 })];
const announced = { method: "POST", fields: "Content-Length: 1000000\r\n" };
const chunked = { method: "POST", fields: "Transfer-Encoding: chunked\r\n" };

/** Sends something again and again, and reads nothing. Returns how to stop. */
function keepSending({ socket }: RawConnection, piece = "x"): () => void {
  socket.pause();
  const timer = setInterval(() => socket.writable && socket.write(piece), 50);
  return () => clearInterval(timer);
}

const refusals: readonly (readonly [claim: string, status: number, head: string, overrides: Overrides])[] = [
  ["429", 429, request("/v2/x", announced), { policies: policies(0) }],
  ["401", 401, "POST /v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", {}],
  ["404", 404, request("/x", announced), {}],
  ["413", 413, request("/v2/x", announced), { maxBodyBytes: 1_024 }],
  ["400 to a malformed chunk", 400, `${request("/v2/x", chunked)}zz\r\n`, {}],
  ["400 to a malformed head", 400, "POST /v2/x HTTP/1.1\r\nbad field\r\n\r\n", {}],
  ["431", 431, `POST /v2/x HTTP/1.1\r\nX: ${"x".repeat(40_000)}\r\n`, {}],
  ["502", 502, request("/v2/x", announced), { upstream: { url: "http://127.0.0.1:1" } }],
];

describe.each(["HTTP/1.1", "HTTP/1.1 over TLS"])("%s", (protocol) => {
  test.each(refusals)("%s is read by a client that reads only when it has sent", async (_, status, head, overrides) => {
    holdTimers(cleanup);
    const tls = protocol === "HTTP/1.1" ? null : withTls({ ...overrides });
    const { connect, gateway } = await stageHttp(cleanup, undefined, tls?.overrides ?? overrides);
    const client = connect(tls === null ? {} : { tls: { ca: tls.ca } });
    client.socket.pause();
    client.write(head);
    await eventually("it is refused", () => gateway.logLines.some((line) => line["status"] === status));
    // Longer than an end without a linger leaves it.
    for (let passedMs = 0; passedMs < closeMs + 1_500; passedMs += 500) {
      client.write("x");
      vi.advanceTimersByTime(500);
      await turns(5);
    }
    expect(client.socket.destroyed).toBe(false);
    client.socket.resume();
    expect((await client.read()).status).toBe(status);
    expect(await within("the connection ends", client.closed)).toBe("end");
  });
});

test("a client that goes on for longer than timeouts.linger is cut off", async () => {
  const { connect } = await stageHttp(cleanup, undefined, { timeouts: { lingerMs: 300 } });
  const client = connect().write(request("/none", announced));
  cleanup(keepSending(client));
  client.socket.resume();
  expect((await client.read()).status).toBe(404);
  await within("it is cut off", new Promise((resolve) => client.socket.once("close", resolve)));
});

/** Both ends of a connection. */
async function pair(): Promise<[Socket, Socket]> {
  const server = cleanup(createServer({ allowHalfOpen: true }));
  const port = await listen(server);
  const client = connect(port, "127.0.0.1");
  const [accepted] = (await once(server, "connection")) as [Socket];
  for (const socket of [client, accepted]) cleanup(() => void socket.destroy());
  return [client, accepted];
}

test("silence ends it after five seconds, which each read begins again, and never later than the whole", async () => {
  const [, accepted] = await pair();
  endAndLinger(accepted, 30_000);
  expect(accepted.timeout).toBe(lingerSilenceMs);
  expect(accepted.destroyed).toBe(false);
  accepted.emit("timeout");
  expect(accepted.destroyed).toBe(true);
  const [, another] = await pair();
  endAndLinger(another, 1_000);
  expect(another.timeout).toBe(1_000);
});

test("a client that was too slow is not waited for so long", async () => {
  const { connect } = await stageHttp(cleanup, undefined, { timeouts: { headMs: 100 } });
  const client = connect();
  expect((await client.ask("POST /v2/x HTTP/1.1\r\n")).status).toBe(408);
  cleanup(keepSending(client));
  client.socket.resume();
  await within("it is cut off", new Promise((resolve) => client.socket.once("close", resolve)), 2 * closeMs);
});

test("a client that closes is not waited for", async () => {
  const { connect } = await stageHttp(cleanup);
  const client = connect({ allowHalfOpen: true });
  expect((await client.ask(request("/none", announced))).status).toBe(404);
  client.socket.end();
  await within("the connection is closed", client.closed, soonMs);
});

test.each([
  ["that began before", false],
  ["that begins in it", true],
])("a drain does not wait for a client %s", async (_, isLate) => {
  const { connect, gateway } = await stageHttp(cleanup, undefined, { drain: { timeoutMs: 60_000 } });
  const client = connect();
  if (isLate) client.write("POST /none HTTP/1.1\r\n");
  else client.write(request("/none", announced));
  if (!isLate) expect((await client.readHead()).status).toBe(404);
  await eventually("it is connected", () => client.socket.bytesWritten > 0);
  await turns(5);
  const drained = gateway.close();
  if (isLate) client.write("Host: a\r\nContent-Length: 1000000\r\n\r\n");
  cleanup(keepSending(client));
  await within("the drain is over", drained, isLate ? 2 * closeMs : soonMs);
});

test("connections that linger give way to those of others, and leave their peer its other requests", async () => {
  const bounds = { maxConnections: 100, maxConnectionsPerPeer: 90, newConnectionsPerPeer: 1_000_000 };
  const { connect } = await stageHttp(cleanup, undefined, { listen: bounds, policies: policies(10_000) });
  const lingering: RawConnection[] = [];
  for (let i = 0; i < 90; i += 1) {
    const client = connect({ localAddress: "127.0.0.2" }).write(request("/none", announced));
    lingering.push(client);
  }
  for (const client of lingering) expect((await client.readHead()).status).toBe(404);
  for (const client of lingering) cleanup(keepSending(client, "x".repeat(1_000)));
  for (const localAddress of ["127.0.0.3", "127.0.0.4"]) {
    for (let i = 0; i < 40; i += 1) {
      expect((await connect({ localAddress }).ask(request("/v2/x"))).status).toBe(200);
    }
  }
  await eventually("they have given way", () => lingering.filter(({ socket }) => !socket.destroyed).length <= 20);
});
