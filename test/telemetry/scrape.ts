// Metrics with everything around them made up, and a scrape as a map from series to value.
import type { ExchangeRecord } from "../../src/core/exchange-record.ts";
import type { Policy } from "../../src/core/policy.ts";
import type { RequestHead } from "../../src/core/request-head.ts";
import type { SharedStoreFigures } from "../../src/core/store-link.ts";
import type { AddressFigures } from "../../src/core/upstream.ts";
import { noHead } from "../../src/limits/request-keys.ts";
import {
  createMetrics,
  type Metrics,
  type MetricsRole,
  type Scrape,
  type ScrapeSources,
} from "../../src/telemetry/metrics.ts";
import type { StoreSources } from "../../src/telemetry/shared-store-metrics.ts";
import { decisionOf, figuresOf, slidingPolicy, statsOf } from "../support/policy.ts";

export const policy: Policy = slidingPolicy({ limit: 100, windowMs: 60_000 });

/** A store that is up, and whose every count differs. */
export function storeFigures(changes: Partial<SharedStoreFigures> = {}): SharedStoreFigures {
  return {
    state: "up",
    shards: { up: 1, slow: 0, away: 0, returned: 0 },
    replicas: 4,
    sinceMs: 5,
    calls: { answered: 11, late: 12, unreachable: 13, refused: 14, full: 15, unready: 16, failed: 17 },
    items: 18,
    units: { granted: 19, spent: 20, returned: 21 },
    heldUnits: 22,
    heldLeases: 23,
    waited: { answered: 24, overdue: 25 },
    alone: { local: 26, open: 27, closed: 28 },
    late: 33,
    refusedFromMemory: 29,
    forgot: 30,
    clockSteps: 31,
    coarse: 32,
    ...changes,
  };
}

export function storeOf(changes: Partial<SharedStoreFigures> = {}): StoreSources {
  const rules = () => ({ state: "read", untold: 34 }) as const;
  return { figures: () => storeFigures(changes), health: () => storeFigures(changes), rules };
}

/** Of an upstream that has a second address, so that requests can fail over. */
export function twoAddresses(): AddressFigures {
  return { available: 2, ejected: 0, ejections: 0, failovers: new Map(), failedLookups: 0, areCurrent: true };
}

interface Sources extends ScrapeSources {
  readonly routes: readonly string[];
}

export function metricsOf(sources: Partial<Sources> = {}, role?: MetricsRole): Metrics & Scrape {
  const all: Sources = {
    routes: ["/v1/", "/v2/"],
    limiter: { stats: () => [statsOf(policy)] },
    counters: () => figuresOf(policy),
    busiestClientRatio: () => 0,
    activeSeconds: () => [0],
    waitingBodyBytes: () => 0,
    upstreamConnections: () => ({ active: 0, idle: 0, waiting: 0 }),
    tunnels: () => ({ opening: 0, open: 0 }),
    upstreamAddresses: () => ({ ...twoAddresses(), available: 1 }),
    upstreamHealth: () => ({ state: "unknown", reason: null }),
    clientConnections: () => 0,
    sharesReads: () => true,
    tokens: () => null,
    certificate: () => null,
    logLines: () => ({ sampled: 0, dropped: 0 }),
    store: null,
    version: "1.2.3",
    nodeVersion: "v26.0.0",
    ...sources,
  };
  const policies = all.limiter.stats().map((each) => each.policy.name);
  const metrics = createMetrics({ hasStore: all.store !== null, ...(role && { role }) });
  metrics.addSeries({ routes: all.routes, policies });
  return { ...metrics, ...metrics.scraping(all) };
}

export type ExchangeChanges = Partial<Omit<ExchangeRecord, "head">> & { readonly head?: Partial<RequestHead> };

/** A request that was admitted, forwarded and answered with 200, started at the instant 1,000. */
export function exchangeOf({ head, ...changes }: ExchangeChanges = {}): ExchangeRecord {
  return {
    source: "proxy",
    head: { ...noHead, target: "/v2/x", ...head },
    id: "request-1",
    requestId: null,
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
    method: "GET",
    route: "/v2/",
    client: "192.0.2.1",
    isProbe: false,
    decision: decisionOf({ outcome: "admitted", policy, remaining: 99, resetMs: 61_000 }),
    auth: "accepted",
    subject: null,
    startedMs: 1_000,
    queuedMs: null,
    dispatchedMs: 1_002,
    answeredMs: 1_042,
    respondedMs: 1_043,
    endedMs: 1_050,
    status: 200,
    problem: null,
    detail: null,
    fault: null,
    rule: null,
    bytesReceived: 90,
    bytesSent: 567,
    complete: true,
    ...changes,
  };
}

/** `name{labels}` to value, with the labels in alphabetical order. */
export async function scrape(metrics: Pick<Scrape, "text">, openMetrics = false): Promise<Map<string, number>> {
  const { body } = await metrics.text(openMetrics);
  const series = new Map<string, number>();
  for (const line of body.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, name, labels = "", value] = line.match(/^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/) ?? [];
    if (name === undefined) throw new Error(`not a sample: ${line}`);
    const sorted = [...labels.matchAll(/[a-z_]+="[^"]*"/g)].map(([label]) => label).sort();
    series.set(sorted.length === 0 ? name : `${name}{${sorted.join(",")}}`, Number(value));
  }
  return series;
}

/** What a function changed: the series whose value is another, with the difference. The process's own are left out. */
export async function changesOf(metrics: Pick<Scrape, "text">, act: () => void): Promise<Record<string, number>> {
  const before = await scrape(metrics);
  act();
  const after = await scrape(metrics);
  const changes: Record<string, number> = {};
  for (const [series, value] of after) {
    // A series of requests is made when the first one is counted.
    const difference = value - (before.get(series) ?? 0);
    if (series.startsWith("headgate_") && difference !== 0) changes[series] = Number(difference.toFixed(9));
  }
  return changes;
}
