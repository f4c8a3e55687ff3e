// Connections that say nothing, stop in the middle, half close, or are torn down: closed by the timeouts, never a
// crash.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { beforeReads, eventually, inFewTurns, within } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { stageRaw } from "../support/stage.ts";
import { holdIntervals, holdTimers } from "../support/timers.ts";

const cleanup = useCleanup();
const get = "GET /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n";
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

const start = (overrides: Overrides = {}, answer = ok, clock?: Clock) =>
  stageRaw(cleanup, (socket) => void socket.write(answer), overrides, clock);

// Heads that are late, and connections that are idle: conformance/timeouts.test.ts.
test("a connection that says nothing is closed after the head's time, without a byte; a proxy's is kept", async () => {
  holdIntervals(cleanup);
  const clock = new FakeClock();
  const clientAddress = { trustedProxies: ["127.0.0.1/32"] };
  const { connect } = await start({ timeouts: { headMs: 5_000 }, clientAddress }, ok, clock);
  const [proxy, client] = [connect(), connect({ localAddress: "127.0.0.2" })];
  for (const passedMs of [0, 4_999]) {
    clock.advance(passedMs);
    vi.advanceTimersByTime(1_000);
    // It is accepted after the others, and answered after they were looked at.
    expect((await connect().ask(get)).status).toBe(200);
    expect(client.ending).toBeNull();
  }
  clock.advance(1);
  vi.advanceTimersByTime(1_000);
  await within("the connection ends", client.closed);
  expect(client.receivedBytes).toBe(0);
  expect((await proxy.ask(get)).status).toBe(200);
});

/** Of the accepted end of each connection: 2 is keepalive, with the hundredths of a second until its next probe. */
function tcpTimers(clients: readonly RawConnection[]): { kind: number; hundredths: number }[] {
  const hex = (port: number): string => `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  // Read once for all: it is long where a machine has many connections.
  const lines = readFileSync("/proc/net/tcp", "utf8").trim().split("\n");
  const fields = lines.map((line) => line.trim().split(/\s+/));
  return clients.map(({ socket: { localPort = 0, remotePort = 0 } }) => {
    const [, , , , , timer = ""] =
      fields.find((f) => f[1]?.endsWith(hex(remotePort)) && f[2]?.endsWith(hex(localPort))) ?? [];
    const [kind = "", when = ""] = timer.split(":");
    return { kind: Number.parseInt(kind, 16), hundredths: Number.parseInt(when, 16) };
  });
}

test("a silent connection is kept known to what is in between: TCP keepalive on every listener", async () => {
  const http = { host: "127.0.0.1", port: 0, maxConnections: 10 };
  const { gateway } = await start({ extAuth: { http, grpc: http, trustedCallers: ["127.0.0.1"] } });
  const ports = [gateway.traffic.port, gateway.admin.port, gateway.extAuth?.port, gateway.grpc?.port];
  const clients = ports.map((port) => new RawConnection(port ?? 0));
  cleanup(() => {
    for (const client of clients) client.destroy();
  });
  let timers = tcpTimers([]);
  await eventually("all are silent", () => {
    timers = tcpTimers(clients);
    return timers.every(({ kind }) => kind === 2);
  });
  // Azure forgets after 240 s.
  const isKept = timers.map(({ hundredths }) => hundredths > 9_000 && hundredths <= 12_000);
  expect(isKept).toEqual([true, true, true, true]);
});

test("a request that has arrived when the time of its connection is over is served", async () => {
  holdIntervals(cleanup);
  const clock = new FakeClock();
  const { connect } = await start({ timeouts: { keepAliveMs: 1_000 } }, ok, clock);
  const client = connect();
  expect((await client.ask(get)).status).toBe(200);
  await beforeReads(() => {
    clock.advance(10_000);
    client.write(get);
    vi.advanceTimersByTime(1_000);
  });
  expect((await client.read()).status).toBe(200);
});

test("good clients are served while a hundred slow ones are timed out", async () => {
  holdTimers(cleanup);
  const { connect } = await start({ timeouts: { headMs: 60_000 }, listen: { maxRequestsPerConnection: 1_000_000 } });
  const slow = Array.from({ length: 100 }, () => connect());
  for (const client of slow) client.write("GET /v2/x HTTP/1.1\r\nX-Slow: ");
  const good = connect();
  let served = 0;
  while (slow.some((client) => client.ending === null)) {
    const before = process.cpuUsage();
    expect((await good.ask(get.replace("/v2/x", "/elsewhere"))).status).toBe(404);
    served += 1;
    // Of the processor's time: that the machine has others to serve is not the gateway's fault.
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(500);
    vi.advanceTimersByTime(500);
  }
  expect(served).toBeGreaterThan(50);
  for (const client of slow) expect(client.rest).toMatch(/^HTTP\/1\.1 408 /);
});

test("a client that closes its sending side has left: the upstream is let go at once", async () => {
  const { connect, upstream, gateway } = await start({}, "");
  const client = connect({ allowHalfOpen: true }).write(get);
  await eventually("the request is at the upstream", () => upstream.bytes() !== "");
  const [carrying] = upstream.sockets;
  client.socket.end();
  await inFewTurns("the upstream is let go", () => carrying?.destroyed === true);
  await eventually("the slot is free", async () => (await upstreamConnections(gateway)).active === 0);
});

test.each([
  ["before a byte", ""],
  ["in a head", "GET /v2/x HTT"],
  ["in a body", "POST /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nContent-Length: 9\r\n\r\nfour"],
  [
    "in a chunk",
    "POST /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nfour",
  ],
  ["during an answer", get],
  ["after nonsense", "nonsense\r\n\r\n"],
  ["after CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"],
  ["after CONNECT with a body", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 9\r\n\r\n"],
  ["after a refused body", "POST /v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"],
])("a client that closes or resets %s leaves nothing behind", async (_, bytes) => {
  const { connect, gateway } = await start({}, "");
  for (const leave of ["end", "resetAndDestroy"] as const) {
    const client = connect({ allowHalfOpen: true });
    await new Promise((resolve) => client.socket.once("connect", resolve));
    client.write(bytes);
    const arrived = get.replace("/v2/x", "/elsewhere");
    const other = connect();
    expect((await other.ask(arrived)).status).toBe(404);
    client.socket[leave]();
    await within("the connection ends", client.closed);
    expect((await other.ask(arrived)).status).toBe(404);
    other.destroy();
  }
  await eventually("no connection is left", async () => (await clientConnections(gateway.adminUrl)) === 0);
  await eventually("no slot is taken", async () => (await upstreamConnections(gateway)).active === 0);
});

test.each([
  ["nonsense\r\n\r\n"],
  ["POST /v2/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"],
  ["CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"],
  ["CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 9\r\n\r\n"],
])("bytes after the last answer to %j are ignored, and the answer arrives whole", async (bytes) => {
  const { connect, upstream } = await start();
  const client = connect().write(bytes);
  const { status } = await client.readHead();
  expect(status).toBeGreaterThanOrEqual(400);
  client.write(`zz\r\n${get.repeat(50)}`);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toMatch(/^\{"message":[^\r]*\}\]\}$/);
  expect(upstream.bytes()).toBe("");
});

async function clientConnections(adminUrl: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(/^headgate_client_connections (\d+)$/m.exec(text)?.[1]);
}

test("a request whose connection was reset before it was accepted is not forwarded: its client is not known", async () => {
  const { connect, upstream, gateway } = await start();
  const script = `
    const socket = require("node:net").connect(${gateway.traffic.port}, "127.0.0.1", () => {
      socket.write(${JSON.stringify(get.replace("/v2/x", "/v2/left"))}, () => socket.resetAndDestroy());
    });`;
  // The gateway, which runs in this process, accepts nothing in the meantime.
  execFileSync(process.execPath, ["-e", script]);
  expect((await connect().ask(get)).status).toBe(200);
  expect(upstream.bytes()).not.toContain("/v2/left");
  const requests = gateway.logLines.filter(({ msg }) => msg === "request");
  expect(requests.map(({ client }) => client)).toEqual(["127.0.0.1"]);
});
