// Two threads that carry traffic, in the process of the test.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BroadcastChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { FilesError } from "../../src/config/read-files.ts";
import { ListenError } from "../../src/gateway.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { startUpstream } from "../support/upstream.ts";
import { type Fault, faultChannel } from "./faulty-thread.ts";

const cleanup = useCleanup();
const threadEntry = new URL("./faulty-thread.ts", import.meta.url);

async function start(overrides: Overrides = {}, respond?: Parameters<typeof startUpstream>[0]) {
  const upstream = await startUpstream(respond);
  cleanup(() => upstream.close());
  const policies = testSettings(upstream.url).policies.map((policy) => ({ ...policy, limit: 1_000_000 }));
  const all: Overrides = { workers: 2, policies, ...overrides };
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides: all, threadEntry });
  cleanup(() => gateway.close());
  return { upstream, gateway, settings: testSettings(upstream.url, all) };
}

/** Over a connection of its own. */
async function ask(gateway: TestGateway, path = "/v2/x"): Promise<number> {
  const headers = { authorization: "Bearer secret-token", connection: "close" };
  const response = await fetch(`${gateway.url}${path}`, { headers });
  await response.text();
  return response.status;
}

function cause(fault: Fault): void {
  const channel = new BroadcastChannel(faultChannel);
  channel.postMessage(fault);
  channel.close();
}

const messages = ({ logLines }: TestGateway, msg: string) => logLines.filter((line) => line["msg"] === msg);

test("both threads serve one port, a reload reaches both, and one that ends is replaced while the other goes on", async () => {
  const { gateway, settings, upstream } = await start();
  expect(await metric(gateway, 'headgate_workers{state="serving"}')).toBe(2);

  // Spread by the system: of 64 connections, all to one thread would be a chance of 2^-63.
  const clients = Array.from({ length: 64 }, () => new RawConnection(gateway.traffic.port));
  for (const client of clients) cleanup(() => client.destroy());
  for (const client of clients) client.write(request("/v2/x"));
  await Promise.all(clients.map((client) => client.read()));
  expect(upstream.hits()).toBe(64);
  expect(await metric(gateway, "headgate_client_connections")).toBe(64);
  expect(await metric(gateway, 'headgate_requests_total{route="/v2/",method="GET",status_class="2xx"}')).toBe(64);
  await expect.poll(() => messages(gateway, "request").length).toBe(64);

  const reloaded = await gateway.reload({ ...settings, routes: ["/v3/"] });
  expect(reloaded).toMatchObject({ ok: true, changed: ["routes"] });
  const statuses = await Promise.all(Array.from({ length: 32 }, () => ask(gateway, "/v3/x")));
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(messages(gateway, "reloaded")).toHaveLength(1);
  expect(await metric(gateway, 'headgate_config_reloads_total{result="applied"}')).toBe(1);

  // A thread that ends while it prepares a reload: nothing changes anywhere.
  cause({ thread: 2, on: "prepare", how: "exit" });
  expect(await gateway.reload({ ...settings, routes: ["/v4/"] })).toMatchObject({
    ok: false,
    errors: ["a worker could not prepare the configuration"],
  });
  expect(await Promise.all(Array.from({ length: 8 }, () => ask(gateway, "/v4/x")))).toEqual(Array(8).fill(404));
  expect(messages(gateway, "worker ended, another one is started")).toMatchObject([{ worker: 2, code: 3 }]);
  const ready = await fetch(`${gateway.adminUrl}/readyz`);
  expect([ready.status, (await fetch(`${gateway.adminUrl}/livez`)).status]).toEqual([200, 200]);
  await expect.poll(() => metric(gateway, 'headgate_workers{state="serving"}'), { timeout: 10_000 }).toBe(2);
  expect(messages(gateway, "worker started")).toMatchObject([{ worker: 3 }]);
  expect(await metric(gateway, "headgate_worker_restarts_total")).toBe(1);
  // The sum of the one that is gone stays in the counters; its connections are given back.
  const two = 'headgate_requests_total{route="/v2/",method="GET",status_class="2xx"}';
  expect(await metric(gateway, two)).toBe(64);

  // The new thread has the configuration in force, and takes part in the next one.
  expect(new Set(await Promise.all(Array.from({ length: 32 }, () => ask(gateway, "/v3/x"))))).toEqual(new Set([200]));
  expect(await gateway.reload({ ...settings, routes: ["/v5/"] })).toMatchObject({ ok: true });
  expect(new Set(await Promise.all(Array.from({ length: 32 }, () => ask(gateway, "/v5/x"))))).toEqual(new Set([200]));

  cause({ thread: 1, on: null, how: "throw" });
  await expect
    .poll(() => messages(gateway, "worker ended, another one is started"))
    .toMatchObject([{ worker: 2 }, { worker: 1, code: 1, err: { message: "a fault of the test" } }]);
  expect(await ask(gateway, "/v5/x")).toBe(200);
});

test("a drain lets both threads finish their requests; the bound on connections holds over both", async () => {
  const held: (() => void)[] = [];
  const { gateway } = await start(
    { listen: { maxConnections: 8 }, drain: { delayMs: 0, timeoutMs: 5_000 } },
    (_, res) => {
      held.push(() => res.end("late"));
    },
  );
  const connect = (count: number) =>
    Array.from({ length: count }, () => {
      const client = new RawConnection(gateway.traffic.port);
      cleanup(() => client.destroy());
      client.write(request("/v2/x"));
      return client.read().then(({ status }) => status);
    });
  const admitted = connect(8);
  await expect.poll(() => held.length).toBe(8);
  // Each thread has fewer than eight.
  expect(await Promise.all(connect(8))).toEqual(Array(8).fill(503));
  expect(await metric(gateway, 'headgate_connections_shed_total{reason="total"}')).toBe(8);

  const drained = gateway.drain();
  expect((await fetch(`${gateway.adminUrl}/readyz`)).status).toBe(503);
  for (const respond of held) respond();
  expect(await Promise.all(admitted)).toEqual(Array(8).fill(200));
  await drained;
  expect(messages(gateway, "drain timeout over, requests broken off")).toEqual([]);
});

test("a start fails as a whole: a port in use, by whomever, or a file that cannot be used", async () => {
  const other = createServer();
  await new Promise<void>((resolve) => void other.listen({ port: 0, host: "127.0.0.1", reusePort: true }, resolve));
  cleanup(() => other.close());
  const { port } = other.address() as { port: number };
  const inUse = startTestGateway({ upstreamUrl: "http://127.0.0.1:9", overrides: { workers: 2, listen: { port } } });
  const error = await inUse.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(ListenError);
  expect(error).toMatchObject({ listener: "traffic", address: { port }, cause: { code: "EADDRINUSE" } });

  const folder = mkdtempSync(join(tmpdir(), "headgate-workers-"));
  cleanup(() => rmSync(folder, { recursive: true }));
  const tokensFile = join(folder, "tokens");
  writeFileSync(tokensFile, "no digest\n");
  const auth = { mode: "tokens", tokensFile } as const;
  const unusable = startTestGateway({ upstreamUrl: "http://127.0.0.1:9", overrides: { workers: 2, auth } });
  expect(await unusable.catch((error: unknown) => error)).toBeInstanceOf(FilesError);
});
