// Every metric of the gateway. All series exist from the start, and no label has a value that a client can choose, so their
// number is constant. Addresses, paths, queries and tokens are never labels. docs/metrics.md explains each metric.
import { Registry } from "prom-client";
import { authOutcomes, type TokensInUse } from "../core/authenticator.ts";
import type { CheckRefusal } from "../core/check-refusal.ts";
import { type ConnectionShedReason, connectionShedReasons } from "../core/connection-bounds.ts";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import type { Limiter } from "../core/limiter.ts";
import { refusalReasons } from "../core/local-reply.ts";
import { outcomes, type Policy } from "../core/policy.ts";
import { type ProxyHeaderRefusal, proxyHeaderRefusals } from "../core/proxy-header.ts";
import type { CertificateInUse, TlsFailure } from "../core/tls.ts";
import { type UpstreamErrorReason, upstreamErrorReasons } from "../core/upstream.ts";
import { type ConnectionSources, connectionMetrics } from "./connection-metrics.ts";
import { type Exposition, exposer } from "./exposition.ts";
import { checkOutcomes, methods, noRoute, statusClass, statusClasses } from "./labels.ts";
import { processMetrics } from "./process-metrics.ts";
import { add, counterByLabel, counterFamily, gauge, type HistogramSeries, histogramFamily } from "./series.ts";
import { tlsMetrics } from "./tls-metrics.ts";

export interface MetricsSources extends ConnectionSources {
  /** The configured prefixes. Requests under none of them are labelled `none`. */
  readonly routes: readonly string[];
  readonly limiter: Pick<Limiter, "policy" | "stats">;
  /** Null in a mode without a list of tokens. */
  readonly tokens: () => TokensInUse | null;
  /** Null without TLS. */
  readonly certificate: () => CertificateInUse | null;
  /** Running totals of log lines that were not written. */
  readonly logLines: () => LostLines;
  readonly version: string;
  readonly nodeVersion: string;
}

export interface LostLines {
  /** Omitted on purpose, to bound the volume. */
  readonly sampled: number;
  /** Lost because the output was too slow or broken. */
  readonly dropped: number;
}

export interface Metrics {
  /** Called once for each request, when it is over. Synchronous, and allocates nothing. */
  observe(exchange: ExchangeRecord): void;
  upstreamError(reason: UpstreamErrorReason): void;
  proxyHeaderRefused(reason: ProxyHeaderRefusal): void;
  connectionShed(reason: ConnectionShedReason): void;
  tlsFailed(reason: TlsFailure): void;
  /** A check was refused without a decision. Decided checks are observed. */
  callRefused(reason: CheckRefusal): void;
  setDraining(): void;
  /** The text of a scrape, in OpenMetrics 1.0 or in the Prometheus text format 0.0.4. */
  text(openMetrics: boolean): Promise<Exposition>;
}

export function createMetrics(sources: MetricsSources): Metrics {
  const registry = new Registry();
  const observeRequest = requestMetrics(registry, sources.routes);
  const observeAnswer = answerMetrics(registry);
  const calls = counterByLabel(
    registry,
    "headgate_ext_auth_checks_total",
    "Calls of ingresses for a decision, by what came of them; untrusted, malformed, overloaded: they got none.",
    "outcome",
    checkOutcomes,
  );
  const observeDecision = decisionMetrics(registry, sources.limiter.policy);
  const upstreamErrors = counterByLabel(
    registry,
    "headgate_upstream_errors_total",
    "Requests the upstream failed, by reason; those that another address served are not among them.",
    "reason",
    upstreamErrorReasons,
  );
  const proxyHeadersRefused = counterByLabel(
    registry,
    "headgate_proxy_headers_refused_total",
    "Connections closed because they did not begin with a PROXY header, by reason.",
    "reason",
    proxyHeaderRefusals,
  );
  const connectionsShed = counterByLabel(
    registry,
    "headgate_connections_shed_total",
    "Connections of clients closed for a bound: refused by one (total, per_peer), or idle and in the way of a new one.",
    "reason",
    connectionShedReasons,
  );
  const tlsFailed = tlsMetrics(registry, sources.certificate);
  let draining = 0;
  gauge(registry, "headgate_draining", "1 from the signal to stop until the end of the process.", [], (set) =>
    set({}, draining),
  );
  limiterMetrics(registry, sources);
  connectionMetrics(registry, sources);
  tokenMetrics(registry, sources.tokens);
  logMetrics(registry, sources.logLines);
  buildMetrics(registry, sources);
  processMetrics(registry);
  return {
    observe(exchange) {
      // The ingress carries a checked request itself: its duration and status are not known here.
      if (exchange.source === "proxy") observeRequest(exchange);
      else add(calls.get(exchange.problem === null ? "admitted" : "denied"));
      observeAnswer(exchange);
      observeDecision(exchange);
    },
    upstreamError: (reason) => add(upstreamErrors.get(reason) ?? upstreamErrors.get("other")),
    proxyHeaderRefused: (reason) => add(proxyHeadersRefused.get(reason)),
    connectionShed: (reason) => add(connectionsShed.get(reason)),
    tlsFailed,
    callRefused: (reason) => add(calls.get(reason)),
    setDraining() {
      draining = 1;
    },
    text: exposer(registry),
  };
}

function requestMetrics(registry: Registry, routes: readonly string[]): (exchange: ExchangeRecord) => void {
  const requests = counterFamily(
    registry,
    "headgate_requests_total",
    "Requests that are over, by route, method and class of the status sent; none: the client left before there was one.",
    ["route", "method", "status_class"],
  );
  const duration = histogramFamily(
    registry,
    "headgate_request_duration_seconds",
    "From the end of the request's head to the end of the response.",
    secondsBounds,
  );
  const upstream = histogramFamily(
    registry,
    "headgate_upstream_duration_seconds",
    "From handing the request to the upstream to the head of its response.",
    secondsBounds,
  );
  const bind = (route: string) => ({
    duration: duration.series({ route }),
    upstream: upstream.series({ route }),
    requests: bindMethods(requests, route),
  });
  const byRoute = new Map([noRoute, ...routes].map((route) => [route, bind(route)]));
  const outside = byRoute.get(noRoute) as ReturnType<typeof bind>;

  return (exchange) => {
    const series = byRoute.get(exchange.route ?? noRoute) ?? outside;
    const byMethod = series.requests.get(exchange.method) ?? series.requests.get("other");
    add(byMethod?.get(statusClass(exchange.status)));
    series.duration.observe((exchange.endedMs - exchange.startedMs) / 1000);
    observeUpstream(series.upstream, exchange);
  };
}

function answerMetrics(registry: Registry): (exchange: ExchangeRecord) => void {
  const overhead = histogramFamily(
    registry,
    "headgate_overhead_seconds",
    "The gateway's own share of the time until the head of the response is written.",
    overheadBounds,
  ).series();
  const refusals = counterByLabel(
    registry,
    "headgate_refusals_total",
    "Answers made by the gateway itself, by reason.",
    "reason",
    refusalReasons,
  );
  return (exchange) => {
    if (exchange.problem !== null) add(refusals.get(exchange.problem));
    observeOverhead(overhead, exchange);
  };
}

function bindMethods(requests: ReturnType<typeof counterFamily>, route: string) {
  const bindClasses = (method: string) =>
    new Map(statusClasses.map((status_class) => [status_class, requests.series({ route, method, status_class })]));
  // Maps, not objects: `constructor` must not be found as a method.
  return new Map<string, ReturnType<typeof bindClasses>>(methods.map((method) => [method, bindClasses(method)]));
}

function observeUpstream(series: HistogramSeries, { dispatchedMs, answeredMs }: ExchangeRecord): void {
  if (dispatchedMs !== null && answeredMs !== null) series.observe((answeredMs - dispatchedMs) / 1000);
}

/** Leaves out the time spent waiting for the upstream or for a connection to it. Without a sent head there is no value. */
function observeOverhead(series: HistogramSeries, exchange: ExchangeRecord): void {
  const { startedMs, queuedMs, dispatchedMs, answeredMs, respondedMs } = exchange;
  if (respondedMs === null) return;
  const before = (queuedMs ?? dispatchedMs ?? respondedMs) - startedMs;
  const after = answeredMs === null ? 0 : respondedMs - answeredMs;
  series.observe((before + after) / 1000);
}

function decisionMetrics(registry: Registry, policy: Policy): (exchange: ExchangeRecord) => void {
  const decisions = counterByLabel(
    registry,
    "headgate_decisions_total",
    "Decisions by policy and outcome; observed: only looked at, outside every limited route.",
    "outcome",
    outcomes,
    { policy: policy.name },
  );
  const auth = counterByLabel(
    registry,
    "headgate_auth_total",
    "Requests by what came of the bearer check; skipped: nobody asked.",
    "outcome",
    authOutcomes,
  );
  const remaining = histogramFamily(
    registry,
    "headgate_remaining_ratio",
    "Share of the limit left to the client after a decision, of requests admitted or throttled.",
    [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1],
  ).series({ policy: policy.name });

  return ({ decision, auth: authOutcome }) => {
    add(decisions.get(decision.outcome));
    add(auth.get(authOutcome));
    if (decision.outcome !== "observed") remaining.observe(decision.remaining / decision.policy.limit);
  };
}

function limiterMetrics(registry: Registry, { limiter }: MetricsSources): void {
  const labels = { policy: limiter.policy.name };
  gauge(registry, "headgate_clients_tracked", "Clients whose requests are remembered now.", ["policy"], (set) =>
    set(labels, limiter.stats().clients),
  );
  gauge(registry, "headgate_clients_capacity", "Clients that can be remembered at once.", ["policy"], (set) =>
    set(labels, limiter.stats().capacity),
  );
  const help = "Clients forgotten: expired, nothing of theirs counted any more; live, the store was full.";
  const evictions = counterFamily(registry, "headgate_evictions_total", help, ["policy", "reason"], () => {
    const stats = limiter.stats();
    expired.value = stats.evictedExpired;
    live.value = stats.evictedLive;
  });
  const expired = evictions.series({ ...labels, reason: "expired" });
  const live = evictions.series({ ...labels, reason: "live" });
}

function tokenMetrics(registry: Registry, tokens: MetricsSources["tokens"]): void {
  gauge(registry, "headgate_tokens_listed", "Tokens that pass in mode tokens; 0 in the other modes.", [], (set) =>
    set({}, tokens()?.listed ?? 0),
  );
  const help = "1 while the tokens file has been read as it is now, 0 while it is away or wrong; 1 in the other modes.";
  gauge(registry, "headgate_tokens_file_current", help, [], (set) => set({}, tokens()?.isCurrent === false ? 0 : 1));
}

function logMetrics(registry: Registry, logLines: () => LostLines): void {
  const help = "Log lines not written: sampled, left out on purpose; dropped, the output was too slow or broken.";
  const family = counterFamily(registry, "headgate_log_lines_lost_total", help, ["reason"], () => {
    const lost = logLines();
    sampled.value = lost.sampled;
    dropped.value = lost.dropped;
  });
  const sampled = family.series({ reason: "sampled" });
  const dropped = family.series({ reason: "dropped" });
}

function buildMetrics(registry: Registry, { version, nodeVersion }: MetricsSources): void {
  gauge(registry, "headgate_build_info", "Always 1.", ["version", "node_version"], (set) =>
    set({ version, node_version: nodeVersion }, 1),
  );
}

const secondsBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const overheadBounds = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
