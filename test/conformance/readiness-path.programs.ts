// `readiness.path` over TLS and HTTP/2, with two threads, beside an exhausted share of connections, and on the ports of checks,
// which know no such path.
import { expect, test, vi } from "vitest";
import { stageDecision } from "../ext-auth/stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, stageHttp } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const tls = useTls();
const readiness = { path: "/healthz" };
/** Each test ends the delay itself. */
const drain = { delayMs: 3_000, timeoutMs: 0 };

async function start(overrides: Overrides = {}) {
  const all = { readiness, policies: [slidingPolicy({ limit: 3, windowMs: 60_000 })], ...overrides };
  const { upstream, gateway } = await stageHttp(cleanup, undefined, all);
  return { gateway, upstream };
}

test("over TLS with HTTP/1.1, and HTTP/2: answered, followed through a drain", async () => {
  holdTimers(cleanup);
  const { overrides, ca } = tls({ drain });
  const { gateway, upstream } = await start(overrides);
  const client = new Http2Client(gateway.traffic.port, ca, cleanup);
  for (let i = 0; i < 5; i += 1) {
    const response = await client.ask({ path: "/healthz?a=b" });
    expect([response.status, response.body]).toEqual([200, "ready"]);
    expectContractFields(response, { limit: 3, remaining: 3 }, (name) => name.toLowerCase());
  }
  const head = await client.ask({ path: "/healthz", method: "HEAD" });
  expect([head.status, head.body]).toEqual([200, ""]);
  const post = await client.ask({ path: "/healthz", method: "POST", body: "x" });
  expect([post.status, valuesOf(post.rawHeaders, "allow")]).toEqual([405, ["GET, HEAD"]]);
  expect((await client.ask({ path: "/Healthz" })).status).toBe(404);
  const drained = gateway.drain();
  const connection = cleanup(new RawConnection(gateway.traffic.port, { tls: { ca } }));
  const { status, body } = await connection.ask(request("/healthz"));
  expect([status, body, upstream.hits()]).toEqual([503, "draining", 0]);
  vi.advanceTimersByTime(drain.delayMs);
  await drained;
});

test("with two threads, each answers, and follows the drain", async () => {
  holdTimers(cleanup);
  const { gateway } = await start({ workers: 2, drain });
  const askAll = async (): Promise<ReadonlySet<string>> => {
    const connections = Array.from({ length: 24 }, () => new RawConnection(gateway.traffic.port));
    for (const connection of connections) {
      cleanup(() => connection.destroy());
      connection.write(request("/healthz"));
    }
    return new Set(await Promise.all(connections.map(async (each) => (await each.read()).body)));
  };
  await eventually("both are ready", async () => [...(await askAll())].join() === "ready");
  const drained = gateway.drain();
  await eventually("both drain", async () => [...(await askAll())].join() === "draining");
  vi.advanceTimersByTime(drain.delayMs);
  await drained;
});

test("while the upstream and all shares are busy, it is answered at once", async () => {
  const { gateway } = await start({
    upstream: { maxConnections: 1 },
    policies: [slidingPolicy({ limit: 1_000, windowMs: 60_000 })],
  });
  for (let i = 0; i < 20; i += 1) {
    const busy = cleanup(new RawConnection(gateway.traffic.port));
    busy.write(request("/v2/slow", { method: "POST", fields: "Content-Length: 10\r\n" }));
  }
  expect((await cleanup(new RawConnection(gateway.traffic.port)).ask(request("/healthz"))).status).toBe(200);
});

test("checks of an ingress know no such path: their 200 would admit the request", async () => {
  const { ask } = await stageDecision(cleanup, {}, { readiness });
  const fields = "X-Original-Method: GET\r\nX-Original-URI: /healthz\r\nX-Forwarded-For: 192.0.2.1\r\n";
  const { rawHeaders } = await ask("/auth-request", fields);
  expect(valuesOf(rawHeaders, "X-Headgate-Status")).toEqual(["404"]);
});
