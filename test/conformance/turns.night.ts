// How long one callback of the gateway can hold the event loop, whatever its peers send. CPU time of the main thread, with a
// wide margin, because garbage collection and the compiler run in it, too.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { type Cleanup, useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
/**
 * With 3,000 late heads in one turn, it takes 60 ms and more. With them spread, turns take up to 14 ms, also beside other
 * work on the machine. That parsing stops is shown by test/exchange.
 */
const maxTurnUs = 50_000;
const get = "GET /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n";

let upstreamUrl: string;
/** For whatever needs no settings of its own. */
let shared: GatewayProcess;
beforeAll(async () => {
  const upstream = await startUpstream();
  sharedCleanup(() => upstream.close());
  upstreamUrl = upstream.url;
  shared = await start(sharedCleanup, "listen.maxConnectionsPerPeer=5000");
}, 60_000);
beforeEach(async () => void (await shared.turns()));

async function start(closing: Cleanup, ...settings: string[]): Promise<GatewayProcess> {
  const gateway = await startGatewayProcess(
    closing,
    upstreamUrl,
    ["log.access=false", "log.level=debug", "timeouts.head=2s", "timeouts.keepAlive=2s", ...settings],
    { watchesTurns: true },
  );
  // The compiler is warm after this.
  for (const bytes of [get.repeat(100), "POST / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100)]) {
    const clients = await Promise.all(Array.from({ length: 5 }, () => open(gateway.port, bytes)));
    await sleep(300);
    for (const client of clients) client.destroy();
  }
  await gateway.figures();
  await gateway.figures();
  // It takes one turn of 40 ms.
  await eventually("the memory of the start is given back", () => gateway.output.out.includes("given back"));
  await gateway.turns();
  return gateway;
}

async function open(port: number, bytes: string): Promise<Socket> {
  const socket = cleanup(connect({ port, host: "127.0.0.1" }));
  socket.on("error", () => {}).resume();
  socket.write(bytes);
  await once(socket, "connect");
  return socket;
}

/** Also by a reset, as when the gateway ends a connection of which bytes are unread: `once` would take that for a failure. */
async function closed(socket: Socket): Promise<void> {
  if (socket.closed) return;
  await within("the connection is closed", new Promise((resolve) => socket.once("close", resolve)), 10_000);
}

const openMany = (port: number, count: number, bytes: string): Promise<Socket[]> =>
  Promise.all(Array.from({ length: count }, () => open(port, bytes)));

async function expectShortTurns(gateway: GatewayProcess): Promise<void> {
  const { longestTurnUs, longestTurnStep } = await gateway.turns();
  expect(longestTurnUs, longestTurnStep).toBeLessThan(maxTurnUs);
}

test.each([
  // More silent ones would wait for the kernel to accept them.
  [1_000, "without a byte", ""],
  [3_000, "with a head that does not end", "POST /v2/x HTTP/1.1\r\nHost: a\r\nX-Slow: "],
  [3_000, "idle after a request", get],
])("%i connections that time out together, %s", async (count, _, bytes) => {
  for (const socket of await openMany(shared.port, count, bytes)) await closed(socket);
  await expectShortTurns(shared);
});

test("the drain of 1,000 idle connections", async () => {
  const gateway = await start(cleanup, "timeouts.keepAlive=1m", "drain.delay=1s", "drain.timeout=30s");
  const held = await open(
    gateway.port,
    "POST /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: b c\r\nContent-Length: 9\r\n\r\n1",
  );
  const idle = await openMany(gateway.port, 1_000, get);
  gateway.signal("SIGTERM");
  for (const socket of idle) await closed(socket);
  await expectShortTurns(gateway);
  held.destroy();
});

test.each([
  ["that are forwarded", get],
  ["to no route", "GET / HTTP/1.1\r\nHost:a\r\n\r\n"],
  ["without a host", "GET /v2/ HTTP/1.1\r\nHost:\r\n\r\n"],
  ["with a body", "POST /v2/ HTTP/1.1\r\nHost:a\r\nContent-Length:1\r\n\r\n1"],
])("64 KiB of pipelined requests %s", async (_, request) => {
  for (let i = 0; i < 5; i += 1) await closed(await open(shared.port, request.repeat(65_536 / request.length)));
  await expectShortTurns(shared);
});

test("64 KiB of pipelined requests on the admin port, and scrapes of 64 routes", async () => {
  const routes = Array.from({ length: 64 }, (_, i) => `routes.${i}=/route-${i}/`);
  const gateway = await start(cleanup, ...routes);
  const request = "GET /metrics HTTP/1.1\r\nHost:a\r\n\r\n";
  for (let i = 0; i < 5; i += 1) await closed(await open(gateway.adminPort, request.repeat(65_536 / request.length)));
  for (let i = 0; i < 3; i += 1) await gateway.figures();
  await sleep(100);
  await expectShortTurns(gateway);
});
