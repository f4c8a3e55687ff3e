// `readiness.path`: a load balancer that reaches the traffic port alone is told what /readyz says. It needs no token, spends
// nothing, is refused for nothing that clients behind its address have done, and makes no line in the log.
import { expect, test, vi } from "vitest";
import { probeReplies } from "../../src/core/local-reply.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { askOnce } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const policies = [slidingPolicy({ limit: 3, windowMs: 60_000 })];
const readiness = { path: "/" };

const probe = (target = "/", method = "GET", fields = ""): string =>
  `${method} ${target} HTTP/1.1\r\nHost: api.test\r\n${fields}\r\n`;

async function start(overrides: Overrides = {}) {
  const upstream = cleanup(await startUpstream());
  const all = { readiness, policies, ...overrides };
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides: all, clock: new FakeClock() });
  cleanup(() => gateway.close());
  return { gateway, upstream, ...askingOf(gateway), settings: (more: Overrides) => testSettings(upstream.url, more) };
}

function askingOf({ traffic }: TestGateway) {
  const ask = (bytes: string) => askOnce(cleanup, traffic.port, bytes);
  return { ask, statusOf: async (bytes: string) => (await ask(bytes)).status };
}

test("says ready in one word, shows the quota, spends nothing, and reaches no upstream and no log", async () => {
  const { ask, gateway, upstream } = await start();
  for (const bytes of [probe(), probe("/?from=lb"), probe("http://api.test/"), probe("/", "GET", "Upgrade: h2c\r\n")]) {
    const response = await ask(bytes);
    expect([response.status, response.body]).toEqual([200, "ready"]);
    expectContractFields(response, { limit: 3, remaining: 3 });
    expect(valuesOf(response.rawHeaders, "Content-Type")).toEqual(["text/plain; charset=utf-8"]);
    expect(valuesOf(response.rawHeaders, "Cache-Control")).toEqual(["no-store"]);
  }
  const head = await ask(probe("/", "HEAD"));
  expect([head.status, head.body, valuesOf(head.rawHeaders, "Content-Length")]).toEqual([200, "", ["5"]]);
  expect((await ask("GET / HTTP/1.0\r\n\r\n")).status).toBe(200);
  expect(upstream.hits()).toBe(0);
  expect(gateway.logLines.filter(({ msg }) => msg === "request")).toEqual([]);
  // The requests are counted as those of any other path outside of the routes.
  expect(await metric(gateway, 'headgate_requests_total{route="none",method="GET",status_class="2xx"}')).toBe(5);
});

test.each(["POST", "PUT", "DELETE", "OPTIONS"])("%s is answered 405 with Allow", async (method) => {
  const { ask } = await start();
  const response = await ask(probe("/", method, "Content-Length: 0\r\n"));
  expect([response.status, valuesOf(response.rawHeaders, "Allow")]).toEqual([405, ["GET, HEAD"]]);
  expectContractFields(response, { limit: 3, remaining: 3 });
});

test("is not refused for a used up quota, for used up refusals, or for a block of its address", async () => {
  const { gateway, statusOf } = await start({ refusals: { perSecond: 1, burst: 2 } });
  for (let i = 0; i < 4; i += 1) await statusOf(request("/v2/x"));
  for (let i = 0; i < 3; i += 1) await statusOf(probe("/nowhere"));
  expect([await statusOf(probe("/nowhere")), await statusOf(request("/v2/x"))]).toEqual([429, 429]);
  const rule = { id: "own", client: "127.0.0.1", action: "block", for: "1h" } as const;
  const by = { name: "ops", address: null };
  expect(await gateway.rules.put(rule, by, { expectedRevision: null, force: true })).toMatchObject({ ok: true });
  expect([await statusOf(request("/v2/x")), await statusOf(probe("/nowhere"))]).toEqual([429, 429]);
  for (let i = 0; i < 20; i += 1) expect(await statusOf(probe())).toBe(200);
  expect(await statusOf(probe("/", "POST", "Content-Length: 0\r\n"))).toBe(405);
});

test.each([
  ["no Host", "GET / HTTP/1.1\r\n\r\n", 400],
  ["two Hosts", probe("/", "GET", "Host: b\r\n"), 400],
  ["a method that nobody knows", probe("/", "NOPE"), 501],
])("a malformed head is refused: %s", async (_, bytes, status) => {
  const { statusOf } = await start();
  expect(await statusOf(bytes)).toBe(status);
});

test("no other spelling is the path", async () => {
  const { ask } = await start({ readiness: { path: "/healthz" } });
  const others = ["/Healthz", "/healthz/", "//healthz", "/./healthz", "/%68ealthz", "/healthz;a=b", "/x/../healthz"];
  for (const target of [...others, "//a/healthz", "/healthz%3fx", "/healthz%00", "/", "*"]) {
    const { status, body } = await ask(probe(target));
    expect([target, status === 404 || status === 400, body.includes("ready")]).toEqual([target, true, false]);
  }
  expect((await ask(probe("/healthz"))).status).toBe(200);
});

test("comes before the routes, and a reload changes it", async () => {
  const routes = ["/v1/", "/v2/", "/api/"];
  const { statusOf, gateway, settings, upstream } = await start({ routes, readiness: { path: "/api/up" } });
  for (let i = 0; i < 5; i += 1) expect(await statusOf(request("/api/up"))).toBe(200);
  expect([upstream.hits(), await statusOf(probe("/api/UP"))]).toEqual([0, 401]);
  expect(await gateway.reload(settings({ routes, readiness: { path: null } }))).toMatchObject({ ok: true });
  expect([await statusOf(request("/api/up")), upstream.hits()]).toEqual([200, 1]);
});

test("follows a drain, and no format of errors replaces its word", async () => {
  holdTimers(cleanup);
  const drain = { delayMs: 3_000, timeoutMs: 0 };
  const { ask, gateway } = await start({ drain, errors: { format: "problem" } });
  const drained = gateway.close();
  const [response, readyz] = await Promise.all([ask(probe()), fetch(`${gateway.adminUrl}/readyz`)]);
  expect([response.status, response.body, readyz.status]).toEqual([503, "draining", 503]);
  expect(valuesOf(response.rawHeaders, "Retry-After")).toEqual([]);
  expect(valuesOf(response.rawHeaders, "Connection")).toEqual(["close"]);
  expectContractFields(response, { limit: 3, remaining: 3 });
  vi.advanceTimersByTime(drain.delayMs);
  await drained;
  expect(gateway.logLines.filter(({ msg }) => msg === "request")).toEqual([]);
});

test("before the start is over, it says so", () => {
  expect([probeReplies.starting.status, probeReplies.starting.body]).toEqual([503, "starting"]);
});
