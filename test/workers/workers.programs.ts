// Two threads that carry traffic, in the process of the test.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { BroadcastChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { FilesError } from "../../src/config/files.ts";
import { ListenError } from "../../src/gateway/gateway.ts";
import { call, openClient } from "../ext-auth/grpc/client.ts";
import { healthCheck } from "../ext-auth/grpc/protocol.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";
import { deadUrl } from "../support/unavailable.ts";
import { startUpstream } from "../support/upstream.ts";
import { type Fault, faultChannel } from "./faulty-thread.ts";

const cleanup = useCleanup();
const tls = useTls();

const { poll } = expect;
const threadEntry = new URL("./faulty-thread.ts", import.meta.url);

async function start(overrides: Overrides = {}, respond?: Parameters<typeof startUpstream>[0]) {
  const upstream = cleanup(await startUpstream(respond));
  const all: Overrides = { workers: 2, ...overrides };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides: all, threadEntry }));
  return { upstream, gateway, settings: testSettings(upstream.url, all) };
}

function connect(gateway: TestGateway, count: number, localAddress = "127.0.0.1"): RawConnection[] {
  return Array.from({ length: count }, () => {
    return cleanup(new RawConnection(gateway.traffic.port, { localAddress }));
  });
}

/** Of one request on each connection. */
function statusesOf(clients: readonly RawConnection[], path = "/v2/x"): Promise<number[]> {
  for (const client of clients) client.write(request(path));
  return Promise.all(clients.map((client) => client.read().then(({ status }) => status)));
}

/** Over a connection of its own. */
async function ask(gateway: TestGateway, path = "/v2/x"): Promise<number> {
  const headers = { authorization: "Bearer secret-token", connection: "close" };
  const response = await fetch(`${gateway.url}${path}`, { headers });
  await response.text();
  return response.status;
}

/** Resolves when the thread has heard of it: a request that is sent afterwards comes later. */
async function cause(fault: Fault): Promise<void> {
  const channel = new BroadcastChannel(faultChannel);
  const heard = new Promise((resolve) => {
    channel.onmessage = resolve;
  });
  channel.postMessage(fault);
  await heard;
  channel.close();
}

const unlimited = testSettings(deadUrl).policies.map((policy) => ({ ...policy, limit: 1_000_000 }));

const messages = ({ logLines }: TestGateway, msg: string) => logLines.filter((line) => line["msg"] === msg);

test("both threads serve one port, a reload reaches both, and one that ends is replaced while the other goes on", async () => {
  const { gateway, settings, upstream } = await start({ listen: { maxConnectionsPerPeer: 64 }, policies: unlimited });
  expect(await metric(gateway, 'headgate_workers{state="serving"}')).toBe(2);

  // Spread by the system: of 64 connections, all to one thread would be a chance of 2^-63.
  const clients = connect(gateway, 64);
  expect(await statusesOf(clients)).toEqual(Array(64).fill(200));
  expect(upstream.hits()).toBe(64);
  expect(await metric(gateway, "headgate_client_connections")).toBe(64);
  // The bound on connections of one peer holds over both threads.
  expect(await statusesOf(connect(gateway, 4))).toEqual(Array(4).fill(503));
  expect(await metric(gateway, 'headgate_connections_shed_total{reason="per_peer"}')).toBe(4);
  for (const client of clients) client.destroy();
  await poll(() => metric(gateway, "headgate_client_connections")).toBe(0);
  expect(await metric(gateway, 'headgate_requests_total{route="/v2/",method="GET",status_class="2xx"}')).toBe(64);

  const reloaded = await gateway.reload({ ...settings, routes: ["/v3/"] });
  expect(reloaded).toMatchObject({ ok: true, changed: ["routes"] });
  const statuses = await Promise.all(Array.from({ length: 32 }, () => ask(gateway, "/v3/x")));
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(messages(gateway, "reloaded")).toHaveLength(1);
  expect(await metric(gateway, 'headgate_config_reloads_total{result="applied"}')).toBe(1);

  // A thread that ends while it prepares a reload: nothing changes anywhere.
  await cause({ thread: 2, on: "prepare", how: "exit" });
  expect(await gateway.reload({ ...settings, routes: ["/v4/"] })).toMatchObject({
    ok: false,
    errors: ["a worker could not prepare the configuration"],
  });
  expect(await Promise.all(Array.from({ length: 8 }, () => ask(gateway, "/v4/x")))).toEqual(Array(8).fill(404));
  expect(messages(gateway, "worker ended, another one is started")).toMatchObject([{ worker: 2, code: 3 }]);
  const ready = await fetch(`${gateway.adminUrl}/readyz`);
  expect([ready.status, (await fetch(`${gateway.adminUrl}/livez`)).status]).toEqual([200, 200]);
  await poll(() => metric(gateway, 'headgate_workers{state="serving"}')).toBe(2);
  expect(messages(gateway, "worker started")).toMatchObject([{ worker: 3 }]);
  expect(await metric(gateway, "headgate_worker_restarts_total")).toBe(1);
  // The sum of the one that is gone stays in the counters; its connections are given back.
  const two = 'headgate_requests_total{route="/v2/",method="GET",status_class="2xx"}';
  expect(await metric(gateway, two)).toBe(64);

  // The new thread has the configuration in force, and takes part in the next one.
  expect(new Set(await Promise.all(Array.from({ length: 32 }, () => ask(gateway, "/v3/x"))))).toEqual(new Set([200]));
  expect(await gateway.reload({ ...settings, routes: ["/v5/"] })).toMatchObject({ ok: true });
  expect(new Set(await Promise.all(Array.from({ length: 32 }, () => ask(gateway, "/v5/x"))))).toEqual(new Set([200]));

  // The connections of a thread that ends can be opened again, and no more.
  const before = connect(gateway, 64);
  expect(await statusesOf(before, "/v5/x")).toEqual(Array(64).fill(200));
  await cause({ thread: 1, on: null, how: "throw" });
  await poll(() => messages(gateway, "worker ended, another one is started")).toMatchObject([
    { worker: 2 },
    { worker: 1, code: 1, err: { message: "a fault of the test" } },
  ]);
  const lost = () => before.filter(({ ending }) => ending !== null).length;
  await poll(lost).toBeGreaterThan(0);
  expect(await statusesOf(connect(gateway, lost()), "/v5/x")).toEqual(Array(lost()).fill(200));
  expect(await statusesOf(connect(gateway, 1), "/v5/x")).toEqual([503]);
});

test("the process is alive as long as one thread runs, and stuck when both have stood still for two seconds", async () => {
  const { gateway } = await start();
  const live = async (): Promise<string> => {
    const response = await fetch(`${gateway.adminUrl}/livez`);
    return `${response.status} ${await response.text()}`;
  };
  const until = new Int32Array(new SharedArrayBuffer(4));
  const release = (): void => {
    Atomics.store(until, 0, 1);
    Atomics.notify(until, 0);
  };
  cleanup(release);
  await cause({ thread: 1, on: null, how: "block", until });
  await setTimeout(2_500);
  // A machine that stands still stops the other one too.
  await poll(live).toBe('200 {"status":"alive"}');
  await cause({ thread: 2, on: null, how: "block", until });
  await poll(live).toBe('503 {"status":"stuck"}');
  release();
  await poll(live).toBe('200 {"status":"alive"}');
});

test("one limit over both threads; the bound on connections, too; a drain lets both finish their requests", async () => {
  // A client alone may use 8 of the 16 of a thread, so also all of its connections on one thread.
  const maxConnections = 32;
  const held: (() => void)[] = [];
  const { gateway } = await start(
    { listen: { maxConnections }, drain: { delayMs: 0, timeoutMs: 5_000 } },
    ({ url }, res) => void (url === "/v2/slow" ? held.push(() => res.end("late")) : res.end("ok")),
  );
  // Exactly 100 of 160 requests of one client, at once over 8 connections.
  const quick = connect(gateway, 8, "127.0.0.2");
  const statuses: number[] = [];
  for (let i = 0; i < 20; i += 1) statuses.push(...(await statusesOf(quick)));
  expect(Object.entries(Object.groupBy(statuses, String)).map(([status, all]) => [status, all?.length])).toEqual([
    ["200", 100],
    ["429", 60],
  ]);
  for (const client of quick) client.destroy();
  await poll(() => metric(gateway, "headgate_client_connections")).toBe(0);

  const clients = Array.from({ length: maxConnections }, (_, i) => connect(gateway, 1, `127.0.1.${i}`)).flat();
  const admitted = statusesOf(clients, "/v2/slow");
  await poll(() => held.length).toBe(maxConnections);
  expect(await statusesOf(connect(gateway, 8))).toEqual(Array(8).fill(503));
  expect(await metric(gateway, 'headgate_connections_shed_total{reason="total"}')).toBe(8);

  const drained = gateway.drain();
  expect((await fetch(`${gateway.adminUrl}/readyz`)).status).toBe(503);
  for (const respond of held) respond();
  expect(await admitted).toEqual(Array(maxConnections).fill(200));
  await drained;
  expect(messages(gateway, "drain timeout over, requests broken off")).toEqual([]);
});

test("no connection is refused while another thread has an idle one", async () => {
  const count = 16;
  const held: (() => void)[] = [];
  const upstreamPorts: (number | undefined)[] = [];
  const { gateway } = await start({ listen: { maxConnections: count } }, ({ url, socket }, res) => {
    if (url === "/v2/slow") {
      held.push(() => res.end("late"));
    } else {
      upstreamPorts.push(socket.remotePort);
      res.end("ok");
    }
  });
  const clients = Array.from({ length: count }, (_, i) => connect(gateway, 1, `127.0.1.${i}`)).flat();
  // One after the other: each thread needs one connection to the upstream, which tells whose client it is.
  for (const client of clients) expect(await statusesOf([client])).toEqual([200]);
  // Of 16 connections, all to one thread would be a chance of 2^-15.
  const busy = clients.filter((_, i) => upstreamPorts[i] === upstreamPorts[0]);
  const idle = clients.filter((_, i) => upstreamPorts[i] !== upstreamPorts[0]);
  expect(new Set(upstreamPorts).size).toBe(2);
  for (const client of busy) client.write(request("/v2/slow"));
  await poll(() => held.length).toBe(busy.length);
  // A thread spares a new connection of its own only if another thread has one that has been idle for over a second longer.
  await setTimeout(1_200);

  // Each goes to any of the threads, and keeps its place.
  const added: RawConnection[] = [];
  for (const i of idle.keys()) {
    const client = connect(gateway, 1, `127.0.2.${i}`)[0] as RawConnection;
    added.push(client);
    client.write(request("/v2/slow"));
    await poll(() => held.length + (client.ending === null ? 0 : count)).toBe(busy.length + i + 1);
  }
  await poll(() => idle.every(({ ending }) => ending !== null)).toBe(true);
  await poll(() => metric(gateway, "headgate_client_connections")).toBe(count);
  expect(await metric(gateway, 'headgate_connections_shed_total{reason="total"}')).toBe(0);
  expect(await statusesOf(connect(gateway, 4, "127.0.3.1"))).toEqual(Array(4).fill(503));
  for (const respond of held) respond();
  const answers = await Promise.all([...busy, ...added].map((client) => client.read()));
  expect(answers.map(({ status }) => status)).toEqual(Array(count).fill(200));
});

test("TLS sessions are resumed with any thread; checks of an ingress are answered by both, from the same counters", async () => {
  const listener = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const extAuth = { http: listener, grpc: listener, trustedCallers: ["127.0.0.1"] };
  const { ca, overrides } = tls({ extAuth });
  const { gateway } = await start(overrides);
  const open = async (session?: Buffer): Promise<TLSSocket> => {
    const { port } = gateway.traffic;
    const socket = connectTls({ port, host: "127.0.0.1", servername: "localhost", ca, ...(session && { session }) });
    cleanup(() => socket.destroy());
    await once(socket, "secureConnect");
    return socket;
  };
  const first = await open();
  first.write(request("/v2/x"));
  const [session] = (await once(first, "session")) as [Buffer];
  const resumed = await Promise.all(Array.from({ length: 12 }, () => open(session)));
  expect(resumed.map((socket) => socket.isSessionReused())).toEqual(Array(12).fill(true));

  const statuses: number[] = [];
  for (let i = 0; i < 110; i += 1) {
    const caller = cleanup(new RawConnection(gateway.extAuth?.port ?? 0));
    caller.write(request("/ext-authz/v2/x", { fields: "X-Forwarded-For: 198.51.100.7\r\n" }));
    statuses.push((await caller.read()).status);
    // Each thread has half of the connections that are allowed.
    caller.destroy();
  }
  expect(statuses).toEqual([...Array(100).fill(200), ...Array(10).fill(429)]);
  const replies = Array.from({ length: 8 }, () => call(openClient(cleanup, gateway.grpc?.port ?? 0), healthCheck, {}));
  expect((await Promise.all(replies)).map(({ status }) => status)).toEqual(Array(8).fill("OK"));
});

test("a start fails as a whole: a port in use, by whomever, or a file that cannot be used", async () => {
  const other = createServer();
  await new Promise<void>((resolve) => void other.listen({ port: 0, host: "127.0.0.1", reusePort: true }, resolve));
  cleanup(() => other.close());
  const { port } = other.address() as { port: number };
  const inUse = startTestGateway({ upstreamUrl: deadUrl, overrides: { workers: 2, listen: { port } } });
  const error = await inUse.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(ListenError);
  expect(error).toMatchObject({ listener: "traffic", address: { port }, cause: { code: "EADDRINUSE" } });

  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens");
  writeFileSync(tokensFile, "no digest\n");
  const auth = { mode: "tokens", tokensFile } as const;
  const unusable = startTestGateway({ upstreamUrl: deadUrl, overrides: { workers: 2, auth } });
  expect(await unusable.catch((error: unknown) => error)).toBeInstanceOf(FilesError);
});
