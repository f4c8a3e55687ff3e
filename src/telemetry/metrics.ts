// Every metric of the gateway. No label has a value that a client can choose, so the number of series is bounded. They exist
// from the start, except the rarer ones of requests. Addresses, paths, queries and tokens are never labels.
// docs/metrics.md explains each metric.
import { authOutcomes } from "../core/authentication.ts";
import { type Cells, MadeByName } from "../core/cells.ts";
import { sharedResources } from "../core/client-share.ts";
import {
  type CheckRefusal,
  checkRefusals,
  connectionShedReasons,
  http2CloseReasons,
  http2ResetReasons,
  proxyHeaderRefusals,
  tlsFailures,
} from "../core/connection-ends.ts";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import { type RefusalReason, refusalReasons } from "../core/local-reply.ts";
import { toldMethods } from "../core/method.ts";
import {
  confirmReasons,
  type ReloadResult,
  reloadOutcome,
  reloadOutcomes,
  type TrialEvent,
  takeBackReasons,
} from "../core/reload.ts";
import type { SnapshotResult } from "../core/snapshot-result.ts";
import { upstreamErrorReasons } from "../core/upstream.ts";
import { type Exposition, exposer } from "./exposition.ts";
import {
  type CellFamily,
  type CounterSeries,
  Families,
  figuresOf,
  type HistogramSeries,
  ofProcess,
} from "./families.ts";
import type { FamilyFigures, Merge } from "./figures.ts";
import { processFamilies } from "./process-metrics.ts";
import { type ScrapedSources, scrapedMetrics } from "./scraped-metrics.ts";
import {
  type StoreEventCounts,
  type StoreSources,
  storeEvents,
  storeMetrics,
  withoutStore,
} from "./shared-store-metrics.ts";

/** These are read when a scrape comes. */
export interface ScrapeSources extends ScrapedSources {
  /** Null: the counters are not shared. */
  readonly store: StoreSources | null;
}

type Merged = (own: AsyncIterable<FamilyFigures>) => AsyncIterable<FamilyFigures>;

interface MetricsOptions {
  /** Whether the counters are shared. */
  readonly hasStore: boolean;
  /** For what is counted. Default: no other thread reads it. */
  readonly cells?: Cells;
  /** Default: only. */
  readonly role?: MetricsRole;
  /** Adds the figures of other threads to its own. Default: there are none. */
  readonly merged?: Merged;
}

/**
 * Where the metrics are: in the only thread, which has all of them; in one of several threads that carry traffic, which
 * has none that are about the process; or in the main thread beside those, which carries no traffic. The main thread has
 * what is about the process, and all that is summed, so that these series exist before a thread has told its figures.
 */
export type MetricsRole = "only" | "worker" | "main";

export interface Metrics extends StoreEventCounts, ReturnType<typeof failureMetrics> {
  /** Called once for each request, when it is over. Synchronous, and allocates nothing. */
  observe(exchange: ExchangeRecord): void;
  /** A check was refused without a decision. Decided checks are observed. */
  checkRefused(reason: CheckRefusal): void;
  /** Of a trusted proxy, which named it in a form that cannot be read. */
  clientUnread(): void;
  setDraining(): void;
  /** A reload is over. */
  reloaded(result: ReloadResult): void;
  /** A reload on trial has begun or is over. */
  trialChanged(event: TrialEvent): void;
  /** The configuration was loaded without an error, at the start or by a reload. */
  configLoaded(wallMs: number): void;
  /** A snapshot of the counters was written, or was not. */
  snapshotEnded(result: SnapshotResult, wallMs: number): void;
  /**
   * Makes the series of these routes (the configured prefixes) and policies, if there are none yet. Of others, the last that
   * were replaced stay. Requests under none of the routes are labelled `none`.
   */
  addSeries(labels: { readonly routes: readonly string[]; readonly policies: readonly string[] }): void;
  /** Returns what a scrape reads: what is counted here, and what `sources` say when it comes. Must be called once. */
  scraping(sources: ScrapeSources): Scrape;
}

export interface Scrape {
  /** In OpenMetrics 1.0 or in the Prometheus text format 0.0.4. */
  text(openMetrics: boolean): Promise<Exposition>;
  /** The families that are counted in cells, where another thread can read them. */
  inCells(): readonly CellFamily[];
  /** The others, as they are now. */
  figures(): Promise<FamilyFigures[]>;
}

export function createMetrics({ hasStore, cells, role = "only", merged = (own) => own }: MetricsOptions): Metrics {
  const create = (): Families => new Families(wanted[role], cells);
  const [families, rarer, ofStore] = [create(), create(), create()];
  const requests = requestMetrics(families);
  const observeReply = replyMetrics(families);
  const decisions = decisionMetrics(families);
  const checks = "Checks of ingresses by outcome; untrusted, malformed and overloaded ones got no decision.";
  const countCheck = families.counterBy("headgate_ext_auth_checks_total", checks, "outcome", checkOutcomes);
  const unread = "Requests whose client a trusted proxy named in a form that cannot be read.";
  const countUnread = families.counter("headgate_clients_unread_total", unread).series();
  let draining = 0;
  families.gauge("headgate_draining", "1 after a signal to stop, 0 before.", () => draining, ofProcess);
  return {
    observe(exchange) {
      // The ingress carries a checked request itself: its duration and status are not known here.
      if (exchange.source === "proxy") requests.observe(exchange);
      else countCheck(checkOutcome(exchange.problem));
      observeReply(exchange);
      decisions.observe(exchange);
    },
    ...failureMetrics(rarer),
    ...reloadMetrics(rarer),
    trialChanged: trialMetrics(rarer),
    snapshotEnded: snapshotMetrics(rarer),
    ...(hasStore ? storeEvents(ofStore) : withoutStore),
    addSeries({ routes, policies }) {
      requests.add(routes);
      decisions.add(policies);
    },
    checkRefused: countCheck,
    clientUnread: () => countUnread.add(),
    setDraining() {
      draining = 1;
    },
    scraping(sources) {
      const [read, readOfStore] = [create(), create()];
      scrapedMetrics(read, sources);
      if (sources.store !== null) storeMetrics(readOfStore, sources.store);
      return scrapeOf([families, read, rarer, readOfStore, ofStore], role, merged);
    },
  };
}

function scrapeOf(all: readonly Families[], role: MetricsRole, merged: Merged): Scrape {
  // The main thread has an event loop and a heap, too.
  const ofThread = processFamilies(role === "main" ? wanted.only : wanted[role], role === "worker");
  const read = async function* (part: "all" | "scraped"): AsyncGenerator<FamilyFigures> {
    yield* figuresOf(ofThread);
    // In separate turns, because each part takes 5 ms in the first scrape, whose code is not compiled.
    await new Promise((resolve) => void setImmediate(resolve));
    yield* figuresOf(all.flatMap((families) => families[part]));
  };
  return {
    text: exposer(() => merged(read("all"))),
    inCells: () => all.flatMap(({ inCells }) => inCells),
    figures: () => Array.fromAsync(read("scraped")),
  };
}

const wanted: Readonly<Record<MetricsRole, (merge: Merge) => boolean>> = {
  only: () => true,
  worker: (merge) => merge !== "process",
  main: (merge) => merge === "process" || merge === "sum",
};

function reloadMetrics(families: Families): Pick<Metrics, "reloaded" | "configLoaded"> {
  const reloads = "Reloads; failed: something was wrong, and has changed nothing.";
  const count = families.counterBy("headgate_config_reloads_total", reloads, "result", reloadOutcomes, ofProcess);
  let loadedMs = 0;
  let restartKeys = 0;
  let isCurrent = true;
  const loaded = "When the configuration was last loaded without an error, in Unix seconds.";
  families.gauge("headgate_config_loaded_timestamp_seconds", loaded, () => loadedMs / 1000, ofProcess);
  const restart = "Keys whose new values need a restart; the old ones are in force.";
  families.gauge("headgate_config_restart_required", restart, () => restartKeys, ofProcess);
  const current = "1 while the configuration that was read last is in force, 0 while it is wrong.";
  families.gauge("headgate_config_current", current, () => Number(isCurrent), ofProcess);
  return {
    reloaded(result) {
      count(reloadOutcome(result));
      if (!result.isConfigRead) return;
      isCurrent = result.errors.length === 0;
      if (isCurrent) restartKeys = result.restart.length;
    },
    configLoaded(wallMs) {
      loadedMs = wallMs;
    },
  };
}

/** Returns the function that counts a trial that is over. */
function trialMetrics(families: Families): (event: TrialEvent) => void {
  const trials = "Reloads on trial that are over, by what became of them and why.";
  const family = families.counter("headgate_reload_trials_total", trials, ofProcess);
  const seriesOf = (outcome: string, reasons: readonly string[]) =>
    reasons.map((reason) => [`${outcome} ${reason}`, family.series({ outcome, reason })] as const);
  const series = new Map([...seriesOf("confirmed", confirmReasons), ...seriesOf("taken_back", takeBackReasons)]);
  let isOn = false;
  families.gauge("headgate_reload_on_trial", "1 while a reload is on trial.", () => Number(isOn), ofProcess);
  return ({ kind, reason }) => {
    isOn = kind === "begun";
    series.get(`${kind} ${reason}`)?.add();
  };
}

/** Returns the function that counts a snapshot. Without `counters.snapshot.path` there is none, and all values are 0. */
function snapshotMetrics(families: Families): (result: SnapshotResult, wallMs: number) => void {
  let writtenMs = 0;
  let bytes = 0;
  const written = "When this process last wrote a snapshot of the counters, in Unix seconds; 0: never.";
  families.gauge("headgate_snapshot_timestamp_seconds", written, () => writtenMs / 1000, ofProcess);
  families.gauge("headgate_snapshot_bytes", "Size of the last snapshot of the counters.", () => bytes, ofProcess);
  const failures = "Snapshots of the counters that could not be written.";
  const failed = families.counter("headgate_snapshot_failures_total", failures, ofProcess).series();
  return (result, wallMs) => {
    if (!result.ok) {
      failed.add();
      return;
    }
    writtenMs = wallMs;
    bytes = result.bytes;
  };
}

/** Returns the functions that count a failure or a refusal by its reason. */
function failureMetrics(families: Families) {
  const upstream = "Requests that the upstream failed, by reason; those that another address served are not counted.";
  const proxyHeaders = "Connections closed because they did not begin with a valid PROXY header, by reason.";
  const shed =
    "Connections closed because of a limit: refused (total, per_peer, rate), or closed for a new one (idle, admin).";
  const shares = "Requests and tunnels refused or ended because their client had used up its share, by resource.";
  const closed = "HTTP/2 connections closed because the client cost too much, by reason.";
  const reset = "HTTP/2 streams refused (per_peer, total) or reset (unread) because of a limit.";
  const tls = "TLS handshakes with clients that failed, by reason.";
  return {
    upstreamError: families.counterBy("headgate_upstream_errors_total", upstream, "reason", upstreamErrorReasons),
    proxyHeaderRefused: families.counterBy(
      "headgate_proxy_headers_refused_total",
      proxyHeaders,
      "reason",
      proxyHeaderRefusals,
    ),
    connectionShed: families.counterBy("headgate_connections_shed_total", shed, "reason", connectionShedReasons),
    shareExceeded: families.counterBy("headgate_client_share_exceeded_total", shares, "resource", sharedResources),
    http2Closed: families.counterBy("headgate_http2_connections_closed_total", closed, "reason", http2CloseReasons),
    http2Reset: families.counterBy("headgate_http2_streams_reset_total", reset, "reason", http2ResetReasons),
    tlsFailed: families.counterBy("headgate_tls_handshake_failures_total", tls, "reason", tlsFailures),
  };
}

/** `add` makes the series of label values that are new. `values`: all that are in force. */
interface Labelled {
  observe(exchange: ExchangeRecord): void;
  add(values: readonly string[]): void;
}

function requestMetrics(families: Families): Labelled {
  const help = "Requests by route, method and class of the status sent; none: the client left before there was one.";
  const requests = families.counter("headgate_requests_total", help);
  const whole = "From the end of the request's head to the end of the response.";
  const duration = families.histogram("headgate_request_duration_seconds", whole, secondsBounds);
  const wait = "From forwarding the request to the head of the upstream's response.";
  const upstream = families.histogram("headgate_upstream_duration_seconds", wait, secondsBounds);
  // An increase that creates its series is lost to rate(): the series of errors are shown first, and all of GET.
  const bindClasses = (route: string, method: string) =>
    new Map(
      statusClasses.map((status_class) => {
        const isRare = method !== "GET" && status_class !== "5xx";
        return [status_class, requests.series({ route, method, status_class }, isRare)];
      }),
    );
  const bind = (route: string) => ({
    duration: duration.series({ route }, route === noRoute),
    upstream: upstream.series({ route }, route === noRoute),
    // Maps, not objects: `constructor` must not be found as a method.
    requests: new Map<string, ReadonlyMap<string, CounterSeries>>(
      toldMethods.map((method) => [method, bindClasses(route, method)]),
    ),
  });
  const unbind = (bound: ReturnType<typeof bind>): void => {
    duration.remove(bound.duration);
    upstream.remove(bound.upstream);
    for (const byClass of bound.requests.values()) for (const series of byClass.values()) requests.remove(series);
  };
  const outside = bind(noRoute);
  const byRoute = new MadeByName(bind, unbind);
  const find = (route: string, method: string, status: number) => {
    const series = byRoute.all.get(route) ?? outside;
    const byMethod = series.requests.get(method) ?? series.requests.get("other");
    return { route, method, status, series, counter: byMethod?.get(statusClass(status)) };
  };
  let last = find(noRoute, "", 0);
  return {
    observe(exchange) {
      const { startedMs, dispatchedMs, answeredMs, endedMs, method, status } = exchange;
      const route = exchange.route ?? noRoute;
      // Most requests are like the one before.
      if (route !== last.route || method !== last.method || status !== last.status) last = find(route, method, status);
      const { series } = last;
      last.counter?.add();
      series.duration.observe(wholeUs(endedMs - startedMs), usInSecond);
      if (dispatchedMs === null || answeredMs === null) return;
      series.upstream.observe(wholeUs(answeredMs - dispatchedMs), usInSecond);
    },
    add(routes) {
      for (const route of routes) byRoute.use(route);
      byRoute.forget(routes);
      // The last route may have had no series of its own, or has lost them.
      last = find(noRoute, "", 0);
    },
  };
}

function replyMetrics(families: Families): (exchange: ExchangeRecord) => void {
  const share = "The gateway's own share of the time until the head of the response is written.";
  const overhead = families.histogram("headgate_overhead_seconds", share, overheadBounds).series();
  const replies = "Requests that the gateway refused itself, by reason.";
  const countRefusal = families.counterBy("headgate_refusals_total", replies, "reason", refusalReasons);
  return (exchange) => {
    if (exchange.problem !== null) countRefusal(exchange.problem);
    observeOverhead(overhead, exchange);
  };
}

/** Leaves out the time spent waiting for the upstream or for a connection to it. Without a sent head there is no value. */
function observeOverhead(series: HistogramSeries, exchange: ExchangeRecord): void {
  const { startedMs, queuedMs, dispatchedMs, answeredMs, respondedMs } = exchange;
  if (respondedMs === null) return;
  const before = (queuedMs ?? dispatchedMs ?? respondedMs) - startedMs;
  const after = answeredMs === null ? 0 : respondedMs - answeredMs;
  series.observe(wholeUs(before + after), usInSecond);
}

function decisionMetrics(families: Families): Labelled {
  const checked = "Requests by outcome of the bearer check; skipped: there was no check.";
  const countAuth = families.counterBy("headgate_auth_total", checked, "outcome", authOutcomes);
  const left = "Share left of the limit that the response speaks of, for requests admitted or throttled.";
  const ratio = families.histogram("headgate_remaining_ratio", left, shares);
  const byPolicy = new MadeByName(
    (policy) => ratio.series({ policy }),
    (series) => ratio.remove(series),
  );
  let last: { readonly policy: object | null; readonly series: HistogramSeries | undefined } = noPolicy;
  return {
    observe({ decision: { outcome, policy, limit, remaining }, auth }) {
      countAuth(auth);
      if (outcome !== "admitted" && outcome !== "throttled") return;
      if (policy !== last.policy) last = { policy, series: byPolicy.all.get(policy.name) };
      last.series?.observe(remaining, limit);
    },
    add(policies) {
      for (const policy of policies) byPolicy.use(policy);
      byPolicy.forget(policies);
      last = noPolicy;
    },
  };
}

const usInSecond = 1_000_000;

function wholeUs(ms: number): number {
  return Math.round(ms * 1000);
}

const noPolicy = { policy: null, series: undefined };

// The label values that are not a closed set of core: what a client can choose is mapped into one of them, so the number of
// series is fixed at the start.

/** The label of requests under no configured route. */
const noRoute = "none";

/** Indexed by the first digit of the status. `none`: the client left before there was a status. */
export const statusClasses = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"] as const;
export type StatusClass = (typeof statusClasses)[number];

/** A status of 600 and above counts as 5xx (RFC 9110, section 15). */
function statusClass(status: number): StatusClass {
  return statusClasses[Math.floor(status / 100)] ?? "5xx";
}

/** `internal`: a bug, and no decision. */
export const checkOutcomes = ["admitted", "denied", "internal", ...checkRefusals] as const;

function checkOutcome(problem: RefusalReason | null): (typeof checkOutcomes)[number] {
  if (problem === null) return "admitted";
  return problem === "internal" ? problem : "denied";
}

const secondsBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const overheadBounds = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const shares = [0, 0.1, 0.2, 0.5, 0.8];
