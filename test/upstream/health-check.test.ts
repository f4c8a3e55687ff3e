// The health check: an address that answers badly gets no more requests, whatever its connections do; it is asked on
// connections of its own, and none of it counts as traffic.
import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { startUpstream, type TestUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
/** The timeout is longer than this process may stand still. */
const healthCheck = { path: "/health?deep=1", intervalMs: 20, timeoutMs: 5_000 };

interface Backend extends TestUpstream {
  /** Of the health check. */
  status: number | "silent" | "reset";
  checks: IncomingMessage[];
  requests: number;
}

async function startBackend(name: string): Promise<Backend> {
  const respond = (req: IncomingMessage, res: ServerResponse): void => {
    if (req.url?.startsWith("/health") !== true) {
      backend.requests += 1;
      res.end(name);
      return;
    }
    backend.checks.push(req);
    if (backend.status === "reset") req.socket.resetAndDestroy();
    else if (backend.status !== "silent") res.writeHead(backend.status).end();
  };
  const upstream = cleanup(await startUpstream(respond));
  const backend: Backend = Object.assign(upstream, { status: 204, checks: [], requests: 0 });
  return backend;
}

async function start(
  backends: readonly Backend[],
  timeoutMs = healthCheck.timeoutMs,
): Promise<{ gateway: TestGateway; ask: () => Promise<string> }> {
  const addresses = backends.map(({ port }) => `127.0.0.1:${port}`);
  const gateway = await startTestGateway({
    upstreamUrl: "http://backend.test:81/base",
    overrides: { drain: { timeoutMs: 0 }, upstream: { addresses, healthCheck: { ...healthCheck, timeoutMs } } },
  });
  cleanup(() => gateway.close());
  const client = cleanup(new RawConnection(gateway.traffic.port));
  return {
    gateway,
    async ask() {
      const { status, body } = await client.ask(request("/v2/x"));
      return status === 200 ? body : String(status);
    },
  };
}

const events = (gateway: TestGateway): unknown[] =>
  gateway.logLines
    .filter(({ msg }) => String(msg).startsWith("upstream address"))
    .map(({ msg, fault }) => [msg, fault]);

test.each([
  [500, "HTTP 500"],
  [404, "HTTP 404"],
  ["silent", "UPSTREAM_RESPONSE_TIMEOUT"],
  ["reset", "ECONNRESET"],
] as const)(
  "an address that answers a check with %s gets no requests until it is well again",
  async (status, fault) => {
    // The good one must have no timeout where this process stands still for 200 ms.
    holdTimers(cleanup);
    const [bad, good] = [await startBackend("bad"), await startBackend("good")];
    const { gateway, ask } = await start([bad, good], status === "silent" ? 200 : healthCheck.timeoutMs);
    expect(new Set([await ask(), await ask()])).toEqual(new Set(["bad", "good"]));
    bad.status = status;
    await eventually("it is out", () => events(gateway).length === 1);
    expect(events(gateway)).toEqual([["upstream address unhealthy", fault]]);
    for (let i = 0; i < 6; i += 1) expect(await ask()).toBe("good");
    bad.status = 302;
    await eventually("it is back", () => events(gateway).length === 2);
    expect(new Set([await ask(), await ask()])).toEqual(new Set(["bad", "good"]));
  },
);

test("what is asked: the path with the URL's host, on a connection that ends; it is no traffic", async () => {
  const backend = await startBackend("only");
  const { gateway } = await start([backend]);
  await eventually("it was asked", () => backend.checks.length > 2);
  const [{ method, url, headers }] = backend.checks as [IncomingMessage];
  expect([method, url, headers.host, headers.connection]).toEqual([
    "GET",
    "/health?deep=1",
    "backend.test:81",
    "close",
  ]);
  expect(await upstreamConnections(gateway)).toEqual({ active: 0, idle: 0, waiting: 0 });
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  expect(metrics).not.toMatch(/^headgate_(requests|decisions|upstream_errors)_total\{.*\} [1-9]/m);
});

test("the only address is used even when it is said to be unhealthy, and nothing is asked after the drain began", async () => {
  const backend = await startBackend("only");
  backend.status = 503;
  const { gateway, ask } = await start([backend]);
  await eventually("it is out", () => events(gateway).length === 1);
  expect(await ask()).toBe("only");
  await gateway.close();
  const asked = backend.checks.length;
  // As long as several checks take.
  const other = await startBackend("other");
  await start([other]);
  await eventually("another gateway has checked several times", () => other.checks.length > 4);
  expect(backend.checks.length).toBe(asked);
});
