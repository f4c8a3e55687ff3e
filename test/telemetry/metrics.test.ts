// What each metric counts, with exact values, and that nothing a client sends can add a series.

import { readFileSync } from "node:fs";
import perfHooks from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import { expect, test, vi } from "vitest";
import type { ExchangeRecord } from "../../src/core/exchange-record.ts";
import { localReplies } from "../../src/core/local-reply.ts";
import { toldMethods } from "../../src/core/method.ts";
import type { Decision } from "../../src/core/policy.ts";
import { upstreamErrorReasons } from "../../src/core/upstream.ts";
import { statusClasses } from "../../src/telemetry/metrics.ts";
import { decisionOf, figuresOf } from "../support/policy.ts";
import { changesOf, exchangeOf, metricsOf, policy, scrape, storeOf } from "./scrape.ts";

/** The changes of one observation, without the buckets of histograms. */
async function counted(changes: Partial<ExchangeRecord>): Promise<Record<string, number>> {
  const metrics = metricsOf();
  const all = await changesOf(metrics, () => metrics.observe(exchangeOf(changes)));
  return Object.fromEntries(Object.entries(all).filter(([series]) => !series.includes("_bucket")));
}

const throttled = decisionOf({ outcome: "throttled", policy, remaining: 0, resetMs: 5_000 });
const observed = decisionOf({ outcome: "observed", policy, remaining: 80, resetMs: 5_000 });

test("a forwarded request counts once in each of its families, and its times add up", async () => {
  expect(await counted({})).toEqual({
    'headgate_requests_total{method="GET",route="/v2/",status_class="2xx"}': 1,
    'headgate_auth_total{outcome="accepted"}': 1,
    'headgate_request_duration_seconds_count{route="/v2/"}': 1,
    'headgate_request_duration_seconds_sum{route="/v2/"}': 0.05,
    'headgate_upstream_duration_seconds_count{route="/v2/"}': 1,
    'headgate_upstream_duration_seconds_sum{route="/v2/"}': 0.04,
    headgate_overhead_seconds_count: 1,
    headgate_overhead_seconds_sum: 0.003,
    'headgate_remaining_ratio_count{policy="per-ip"}': 1,
    'headgate_remaining_ratio_sum{policy="per-ip"}': 0.99,
  });
});

test("a throttled request is a refusal, has no upstream time, and its whole time until the answer is the gateway's", async () => {
  const changes = { decision: throttled, status: 429, problem: "throttled", auth: "skipped" } as const;
  expect(
    await counted({ ...changes, dispatchedMs: null, answeredMs: null, respondedMs: 1_000.25, endedMs: 1_000.5 }),
  ).toEqual({
    'headgate_requests_total{method="GET",route="/v2/",status_class="4xx"}': 1,
    'headgate_auth_total{outcome="skipped"}': 1,
    'headgate_refusals_total{reason="throttled"}': 1,
    'headgate_request_duration_seconds_count{route="/v2/"}': 1,
    'headgate_request_duration_seconds_sum{route="/v2/"}': 0.0005,
    headgate_overhead_seconds_count: 1,
    headgate_overhead_seconds_sum: 0.00025,
    'headgate_remaining_ratio_count{policy="per-ip"}': 1,
  });
});

test("a request outside every route is labelled none and leaves the remaining share alone", async () => {
  const changes = { route: null, decision: observed, status: 404, problem: "no_route", auth: "skipped" } as const;
  expect(
    await counted({ ...changes, dispatchedMs: null, answeredMs: null, respondedMs: 1_001, endedMs: 1_001 }),
  ).toEqual({
    'headgate_requests_total{method="GET",route="none",status_class="4xx"}': 1,
    'headgate_auth_total{outcome="skipped"}': 1,
    'headgate_refusals_total{reason="no_route"}': 1,
    'headgate_request_duration_seconds_count{route="none"}': 1,
    'headgate_request_duration_seconds_sum{route="none"}': 0.001,
    headgate_overhead_seconds_count: 1,
    headgate_overhead_seconds_sum: 0.001,
  });
});

test("the wait for a free connection to the upstream is neither's share, whether it was worth it or not", async () => {
  const served = await counted({ queuedMs: 1_001, dispatchedMs: 1_501, answeredMs: 1_541, respondedMs: 1_542 });
  expect(served["headgate_overhead_seconds_sum"]).toBe(0.002);
  expect(served['headgate_upstream_duration_seconds_sum{route="/v2/"}']).toBe(0.04);
  const refused = { status: 503, problem: "overloaded", answeredMs: null } as const;
  const inVain = await counted({ ...refused, queuedMs: 1_001, dispatchedMs: null, respondedMs: 3_001 });
  expect(inVain["headgate_overhead_seconds_sum"]).toBe(0.001);
});

test("the wait for an upstream that did not answer in time is not the gateway's own share", async () => {
  const seen = await counted({
    status: 504,
    problem: "upstream_timeout",
    answeredMs: null,
    respondedMs: 31_002,
    endedMs: 31_003,
  });
  expect(seen).toMatchObject({ headgate_overhead_seconds_count: 1, headgate_overhead_seconds_sum: 0.002 });
  expect(seen).not.toHaveProperty('headgate_upstream_duration_seconds_count{route="/v2/"}');
});

test("a client that left before an answer has no status class and no share of the gateway", async () => {
  const seen = await counted({ status: 0, answeredMs: null, respondedMs: null, complete: false });
  expect(seen).toHaveProperty(['headgate_requests_total{method="GET",route="/v2/",status_class="none"}'], 1);
  expect(seen).not.toHaveProperty("headgate_overhead_seconds_count");
});

test.each([
  [101, "1xx"],
  [204, "2xx"],
  [304, "3xx"],
  [499, "4xx"],
  [503, "5xx"],
  [799, "5xx"],
])("status %i is of class %s", async (status, status_class) => {
  const series = `headgate_requests_total{method="GET",route="/v2/",status_class="${status_class}"}`;
  expect(await counted({ status })).toHaveProperty([series], 1);
});

test("QUERY has a label of its own", async () => {
  const series = `headgate_requests_total{method="QUERY",route="/v2/",status_class="2xx"}`;
  expect(await counted({ method: "QUERY" })).toHaveProperty([series], 1);
});

test.each(["PROPFIND", "constructor", "__proto__", "get", ""])("method %j counts as other", async (method) => {
  const series = 'headgate_requests_total{method="other",route="/v2/",status_class="2xx"}';
  expect(await counted({ method })).toHaveProperty([series], 1);
});

test("each reason to refuse has its series", async () => {
  const replies = Object.values(localReplies);
  const metrics = metricsOf();
  const changes = await changesOf(metrics, () => {
    for (const { reason, status } of replies) metrics.observe(exchangeOf({ problem: reason, status }));
  });
  for (const { reason } of replies) {
    const count = replies.filter((each) => each.reason === reason).length;
    expect(changes).toHaveProperty([`headgate_refusals_total{reason="${reason}"}`], count);
  }
});

test("a bucket's bound is inclusive, and the gateway's share is told apart down to 50 µs", async () => {
  const metrics = metricsOf();
  const after = (ms: number) => exchangeOf({ startedMs: 0, dispatchedMs: null, answeredMs: null, respondedMs: ms });
  for (const ms of [0.05, 0.06, 0.1, 2_000]) metrics.observe(after(ms));
  const series = await scrape(metrics);
  const below = (le: string) => series.get(`headgate_overhead_seconds_bucket{le="${le}"}`);
  expect([below("5e-05"), below("0.0001"), below("0.00025"), below("1.0"), below("+Inf")]).toEqual([1, 3, 3, 3, 4]);
});

test("what is kept elsewhere is read at each scrape", async () => {
  let n = 1;
  const metrics = metricsOf({
    counters: () => ({
      ...figuresOf(policy, {
        keys: n,
        coarse: 10 * n,
        evictedExpired: 100 * n,
        evictedLive: 1_000 * n,
        merged: 20 * n,
        forgiven: 30 * n,
      }),
      usedBytes: 40 * n,
      freeBytes: 50 * n,
    }),
    upstreamConnections: () => ({ active: 2 * n, idle: 3 * n, waiting: 4 * n }),
    waitingBodyBytes: () => 15 * n,
    upstreamHealth: () => ({ state: n === 1 ? "up" : "down", reason: null }),
    tunnels: () => ({ opening: 8 * n, open: 9 * n }),
    clientConnections: () => 5 * n,
    logLines: () => ({ sampled: 6 * n, dropped: 7 * n }),
  });
  await scrape(metrics);
  n = 3;
  const series = await scrape(metrics);
  expect(Object.fromEntries([...series].filter(([name]) => name.startsWith("headgate_")))).toMatchObject({
    'headgate_clients_tracked{policy="per-ip"}': 3,
    'headgate_coarse_keys{policy="per-ip"}': 30,
    'headgate_admissions_merged_total{policy="per-ip"}': 60,
    'headgate_forgiven_keys_total{policy="per-ip"}': 90,
    'headgate_counters_memory_bytes{state="used"}': 120,
    'headgate_counters_memory_bytes{state="free"}': 150,
    'headgate_evictions_total{policy="per-ip",reason="expired"}': 300,
    'headgate_evictions_total{policy="per-ip",reason="live"}': 3_000,
    'headgate_upstream_connections{state="active"}': 6,
    'headgate_upstream_connections{state="idle"}': 9,
    'headgate_upstream_connections{state="waiting"}': 12,
    'headgate_upstream_state{state="unknown"}': 0,
    'headgate_upstream_state{state="up"}': 0,
    'headgate_upstream_state{state="down"}': 1,
    headgate_client_connections: 15,
    headgate_waiting_body_bytes: 45,
    'headgate_tunnels{state="opening"}': 24,
    'headgate_tunnels{state="open"}': 27,
    'headgate_log_lines_lost_total{reason="sampled"}': 18,
    'headgate_log_lines_lost_total{reason="dropped"}': 21,
    'headgate_build_info{node_version="v26.0.0",version="1.2.3"}': 1,
    headgate_draining: 0,
  });
});

test("the heap's bound is that of this process", async () => {
  const limit = (await scrape(metricsOf())).get("headgate_heap_limit_bytes");
  expect(limit).toBe(getHeapStatistics().heap_size_limit);
});

test("upstream errors and draining are counted when they are told", async () => {
  const metrics = metricsOf();
  const changes = await changesOf(metrics, () => {
    metrics.upstreamError("refused");
    metrics.upstreamError("refused");
    metrics.setDraining();
  });
  expect(changes).toEqual({ 'headgate_upstream_errors_total{reason="refused"}': 2, headgate_draining: 1 });
});

test("a sidecar has at most 350 series, also after requests of several kinds", async () => {
  const metrics = metricsOf();
  expect((await scrape(metrics)).size).toBeLessThanOrEqual(330);
  for (const route of ["/v1/", "/v2/"]) {
    for (const method of ["GET", "POST", "HEAD"]) {
      for (const status of [200, 401, 429, 503]) metrics.observe(exchangeOf({ route, method, status }));
    }
  }
  metrics.observe(exchangeOf({ route: null, status: 404, dispatchedMs: null, answeredMs: null }));
  expect((await scrape(metrics)).size).toBeLessThanOrEqual(350);
});

test("every increase of errors is seen: their series are there before, for each method and route", async () => {
  const series = await scrape(metricsOf());
  for (const route of ["/v1/", "/v2/", "none"]) {
    for (const method of toldMethods) {
      expect(series.get(`headgate_requests_total{method="${method}",route="${route}",status_class="5xx"}`)).toBe(0);
    }
    for (const status_class of statusClasses) {
      expect(series.get(`headgate_requests_total{method="GET",route="${route}",status_class="${status_class}"}`)).toBe(
        0,
      );
    }
  }
});

test("10,000 different clients, ids, methods and routes add no series but those of requests that had none yet", async () => {
  const metrics = metricsOf();
  const before = [...(await scrape(metrics)).keys()];
  for (let i = 0; i < 10_000; i++) {
    const decision: Decision = {
      ...(i % 2 ? throttled : observed),
      policy: { ...policy, limit: i + 1 },
      remaining: i % 7,
    };
    metrics.observe(
      exchangeOf({
        id: `id-${i}`,
        client: `client-${i}`,
        method: `METHOD${i}`,
        route: `/v${i}/`,
        status: i % 1_000,
        decision,
      }),
    );
  }
  const after = [...(await scrape(metrics)).keys()];
  expect(before.length).toBeGreaterThan(200);
  for (const kind of ["major", "minor", "incremental", "weakcb"]) {
    expect(before).toContain(`nodejs_gc_duration_seconds_count{kind="${kind}"}`);
  }
  const added = after.filter((series) => !before.includes(series));
  expect(after.filter((series) => !added.includes(series))).toEqual(before);
  for (const series of added) {
    expect(series).toMatch(
      /^headgate_(?:requests_total\{method="other"|(?:request|upstream)_duration_seconds_\w+\{.*route="none")/,
    );
  }
  expect(added.length).toBeLessThanOrEqual(3 * 5 + 2 * 17);
});

test("a bucket is named as Prometheus 3 names it when it ingests it, in both formats", async () => {
  const metrics = metricsOf({ store: storeOf() });
  // Go's FormatFloat(x, 'g', -1, 64) and `.0` where it has neither a point nor an exponent.
  const asInPrometheus3 = (le: string): string => {
    const bound = Number(le);
    if (!Number.isFinite(bound)) return le;
    const exponent = Math.floor(Math.log10(Math.abs(bound)));
    if (bound !== 0 && exponent < -4) return bound.toExponential().replace(/-(\d)$/, "-0$1");
    return Number.isInteger(bound) ? `${bound}.0` : `${bound}`;
  };
  for (const openMetrics of [false, true]) {
    const { body } = await metrics.text(openMetrics);
    const bounds = [...new Set([...body.matchAll(/\ble="([^"]+)"/g)].map(([, le = ""]) => le))];
    expect(bounds).toEqual(bounds.map(asInPrometheus3));
    expect(bounds).toEqual(expect.arrayContaining(["0.0", "1.0", "10.0", "5e-05", "+Inf"]));
  }
});

test("docs/metrics.md describes every metric, and none that does not exist", async () => {
  const { body } = await metricsOf({ store: storeOf() }).text(false);
  const exposed = [...body.matchAll(/^# TYPE (headgate_\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);
  const page = readFileSync(new URL("../../docs/metrics.md", import.meta.url), "utf8");
  const described = [...page.matchAll(/^\| `(headgate_\w+)` \| (\w+) \|/gm)].map(([, name, type]) => `${name} ${type}`);
  expect(exposed.length).toBeGreaterThan(15);
  expect(described.sort()).toEqual(exposed.sort());
  const anywhere = new Set(
    [...page.matchAll(/\bheadgate_\w+/g)].map(([name]) => name.replace(/_(?:bucket|sum|count)$/, "")),
  );
  expect([...anywhere].sort()).toEqual(exposed.map((entry) => entry.split(" ")[0]));
});

test("docs/metrics.md lists every reason of an upstream error", () => {
  const page = readFileSync(new URL("../../docs/metrics.md", import.meta.url), "utf8");
  const [, afterHeading = ""] = page.split("### Reasons of upstream errors");
  const [table = ""] = afterHeading.split("\n## ");
  expect([...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, reason]) => reason)).toEqual(upstreamErrorReasons);
});

test("several gateways in one process observe the process once, because that cannot be stopped", async () => {
  const observed = vi.spyOn(perfHooks, "monitorEventLoopDelay");
  const all = [metricsOf(), metricsOf(), metricsOf()];
  expect(observed.mock.calls.length).toBeLessThanOrEqual(1);
  observed.mockRestore();
  for (const metrics of all) {
    const series = await scrape(metrics);
    expect(series.get("process_resident_memory_bytes")).toBeGreaterThan(0);
    expect(series.get("nodejs_heap_size_total_bytes")).toBeGreaterThan(0);
    expect(series.get("headgate_heap_limit_bytes")).toBeGreaterThan(0);
  }
});

test("a request counts under its own labels whatever the one before was, also where a reload has just made series", async () => {
  const metrics = metricsOf();
  const other = { ...policy, name: "later" };
  const decision = decisionOf({ outcome: "admitted", policy: other, remaining: 99, resetMs: 61_000 });
  const requests = [
    exchangeOf({ route: "/v3/", decision }),
    exchangeOf(),
    exchangeOf({ status: 404 }),
    exchangeOf({ method: "PUT", auth: "skipped" }),
    exchangeOf({ route: null, auth: "missing" }),
    exchangeOf({ route: "/v3/", decision }),
  ];
  const observeAll = (): void => {
    for (const request of requests) metrics.observe(request);
  };
  const counted = async (): Promise<Record<string, number>> => {
    const changes = await changesOf(metrics, observeAll);
    const names = /^headgate_(?:requests_total|auth_total|remaining_ratio_count)/;
    return Object.fromEntries(Object.entries(changes).filter(([series]) => names.test(series)));
  };
  const same = {
    'headgate_requests_total{method="GET",route="/v2/",status_class="2xx"}': 1,
    'headgate_requests_total{method="GET",route="/v2/",status_class="4xx"}': 1,
    'headgate_requests_total{method="PUT",route="/v2/",status_class="2xx"}': 1,
    'headgate_auth_total{outcome="accepted"}': 4,
    'headgate_auth_total{outcome="skipped"}': 1,
    'headgate_auth_total{outcome="missing"}': 1,
    'headgate_remaining_ratio_count{policy="per-ip"}': 4,
  };
  expect(await counted()).toEqual({
    ...same,
    'headgate_requests_total{method="GET",route="none",status_class="2xx"}': 3,
  });
  metrics.addSeries({ routes: ["/v3/"], policies: ["later"] });
  expect(await counted()).toEqual({
    ...same,
    'headgate_requests_total{method="GET",route="none",status_class="2xx"}': 1,
    'headgate_requests_total{method="GET",route="/v3/",status_class="2xx"}': 2,
    'headgate_remaining_ratio_count{policy="later"}': 2,
  });
});

test("hundreds of reloads with new names have the series of the last 64 that were replaced, and the cells of no more", async () => {
  const metrics = metricsOf();
  const buffers = new Set<ArrayBufferLike>();
  const reload = (i: number): void => {
    const other = { ...policy, name: `p-${i}` };
    const decision = decisionOf({ outcome: "admitted", policy: other, remaining: 99, resetMs: 61_000 });
    metrics.addSeries({ routes: ["/v1/", `/${i}/`], policies: ["per-ip", other.name] });
    metrics.observe(exchangeOf({ route: `/${i}/`, decision, method: "PUT" }));
    metrics.observe(exchangeOf({ route: "/v1/" }));
    for (const { cells } of metrics.inCells().flatMap(({ members }) => members)) buffers.add(cells.buffer);
  };
  for (let i = 0; i < 100; i += 1) reload(i);
  const { size } = buffers;
  // A scrape knows the series that are shown, and later there are as many others.
  await scrape(metrics);
  for (let i = 100; i < 300; i += 1) reload(i);
  expect(buffers.size).toBe(size);
  const all = await scrape(metrics);
  const named = Array.from({ length: 65 }, (_, i) => 235 + i);
  const putsOf = (route: string) => `headgate_requests_total{method="PUT",route="${route}",status_class="2xx"}`;
  const counted = (start: string) =>
    [...all].filter(([series, value]) => series.startsWith(start) && value > 0).sort(([a], [b]) => (a < b ? -1 : 1));
  expect(counted('headgate_requests_total{method="PUT"')).toEqual(named.map((i) => [putsOf(`/${i}/`), 1]));
  expect(counted("headgate_remaining_ratio_count")).toEqual([
    ...named.map((i) => [`headgate_remaining_ratio_count{policy="p-${i}"}`, 1]),
    ['headgate_remaining_ratio_count{policy="per-ip"}', 300],
  ]);
  expect(all.get('headgate_request_duration_seconds_count{route="/v1/"}')).toBe(300);
  expect(all.get('headgate_request_duration_seconds_count{route="none"}')).toBeUndefined();
});
