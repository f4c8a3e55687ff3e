// Everything the gateway reports about itself, behind one object: metrics, access log, the log of upstream failures,
// and the upstream's health as the traffic shows it. A request is observed once, when it is over.
import type { CheckRefusal } from "../core/check-refusal.ts";
import { type SharedResource, sharedResources } from "../core/client-share.ts";
import type { Clock } from "../core/clock.ts";
import { type ConnectionShedReason, connectionShedReasons } from "../core/connection-bounds.ts";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import { type Http2CloseReason, http2CloseReasons } from "../core/http2-bounds.ts";
import type { ReloadCause, ReloadResult } from "../core/reload.ts";
import type { TlsFailure } from "../core/tls.ts";
import type { TunnelEnd } from "../core/tunnel-end.ts";
import type { UpstreamFault, UpstreamHealth } from "../core/upstream.ts";
import { createAccessLog } from "./access-log.ts";
import { BusiestClient } from "./busiest-client.ts";
import type { Logger } from "./log.ts";
import { createMetrics, type Metrics, type MetricsSources } from "./metrics.ts";
import { logReload } from "./reload-log.ts";
import { Sampler, type SamplerOptions } from "./sampler.ts";
import { createUpstreamLog } from "./upstream-log.ts";

export interface TelemetryOptions extends Omit<MetricsSources, "upstreamHealth" | "logLines" | "busiestClientRatio"> {
  readonly log: Logger;
  readonly clock: Clock;
  /** Log lines that were lost so far because the output was too slow or broken. */
  readonly droppedLogLines: () => number;
}

export interface Telemetry {
  readonly metrics: Metrics;
  /** Counts and logs a request. `path`: its target, as it came. */
  finish(exchange: ExchangeRecord, path: string): void;
  /** The same without a line in the access log. */
  finishUnlogged(exchange: ExchangeRecord): void;
  upstreamAnswered(): void;
  /** A reload has replaced the upstream. */
  upstreamReplaced(): void;
  reloaded(result: ReloadResult, cause: ReloadCause): void;
  upstreamFailed(fault: UpstreamFault): void;
  /** A client's handshake failed; `code` is OpenSSL's or the kernel's. */
  tlsFailed(reason: TlsFailure, code: string): void;
  /** An HTTP/2 connection was closed because it cost too much; `peer` is its address. */
  http2Closed(reason: Http2CloseReason, peer: string): void;
  /** A connection of a client was closed because of a limit; `peer` is the address whose own limit it was, or null. */
  connectionShed(reason: ConnectionShedReason, peer: string | null): void;
  upstreamHealth(): UpstreamHealth;
  /**
   * A check was refused without a decision; `caller` is an address. `detail` says what is wrong with the call, null if
   * the reason says it all. It contains nothing that was sent.
   */
  checkRefused(reason: CheckRefusal, caller: string, detail: string | null): void;
  tunnelEnded(end: TunnelEnd): void;
  /** A request or a tunnel of the client was refused or ended because other clients waited. */
  shareExceeded(resource: SharedResource, client: string): void;
  /** Reports the lines that were omitted, and stops. */
  close(): void;
}

const up: UpstreamHealth = { state: "up", reason: null };
const unknown: UpstreamHealth = { state: "unknown", reason: null };

export function createTelemetry(options: TelemetryOptions): Telemetry {
  const { log, clock } = options;
  const accessLog = createAccessLog(log, { clock });
  const upstreamLog = createUpstreamLog(log, { clock });
  const samplers = createSamplers(log);
  let health = unknown;
  const busiest = new BusiestClient();
  const metrics = createMetrics({
    ...options,
    busiestClientRatio: () => busiest.ratio(clock.monotonicMs()),
    upstreamHealth: () => health,
    logLines: () => ({
      sampled:
        accessLog.omitted +
        upstreamLog.omitted +
        Object.values(samplers).reduce((sum, { omitted }) => sum + omitted, 0),
      dropped: options.droppedLogLines(),
    }),
  });
  const finishUnlogged = (exchange: ExchangeRecord): void => {
    metrics.observe(exchange);
    busiest.count(exchange.client, exchange.endedMs);
  };
  metrics.configLoaded(clock.wallMs());
  return {
    metrics,
    ...createWarnings(options, metrics, samplers),
    finish(exchange, path) {
      finishUnlogged(exchange);
      accessLog.record(exchange, path);
    },
    finishUnlogged,
    upstreamAnswered() {
      health = up;
    },
    reloaded(result, cause) {
      metrics.reloaded(result);
      if (result.isConfigRead && result.errors.length === 0) metrics.configLoaded(clock.wallMs());
      logReload(log, result, cause);
    },
    upstreamReplaced() {
      health = unknown;
    },
    upstreamFailed(fault) {
      const { reason } = fault;
      metrics.upstreamError(reason);
      // Running out of connections says nothing about whether the upstream can be reached.
      if (reason !== "overloaded") health = { state: "down", reason };
      upstreamLog.record(fault);
    },
    tlsFailed(reason, code) {
      metrics.tlsFailed(reason);
      log.debug({ reason, code }, "TLS handshake failed");
    },
    upstreamHealth: () => health,
    // Each tunnel has cost a request, so the lines need no bound.
    tunnelEnded: (end) => log.info(end, "tunnel ended"),
    close() {
      accessLog.close();
      upstreamLog.close();
      for (const sampler of Object.values(samplers)) sampler.close();
    },
  };
}

/** What is counted each time, and logged some of the times. */
function createWarnings(
  { log, clock }: TelemetryOptions,
  metrics: Metrics,
  { refusedChecks, exceededShares, closedHttp2, shedConnections }: ReturnType<typeof createSamplers>,
): Pick<Telemetry, "http2Closed" | "connectionShed" | "checkRefused" | "shareExceeded"> {
  return {
    http2Closed(reason, peer) {
      metrics.http2Closed(reason);
      if (closedHttp2.passes(reason, clock.monotonicMs())) {
        log.warn({ reason, peer }, "HTTP/2 connection closed: it cost too much");
      }
    },
    connectionShed(reason, peer) {
      metrics.connectionShed(reason);
      if (peer !== null && shedConnections.passes(reason, clock.monotonicMs())) {
        log.warn({ reason, peer }, "connection refused: too many of its peer");
      }
    },
    checkRefused(reason, caller, detail) {
      metrics.checkRefused(reason);
      if (refusedChecks.passes(reason, clock.monotonicMs())) {
        log.warn({ reason, detail, caller }, "ext-auth check refused");
      }
    },
    shareExceeded(resource, client) {
      metrics.shareExceeded(resource);
      if (exceededShares.passes(resource, clock.monotonicMs())) {
        log.warn({ resource, client }, "client over its share");
      }
    },
  };
}

function createSamplers(log: Logger) {
  const create = (maxKeys: number, report: SamplerOptions["report"]) => new Sampler({ perSecond: 5, maxKeys, report });
  return {
    refusedChecks: create(100, (reason, omitted) => log.warn({ reason, omitted }, "refused ext-auth checks left out")),
    exceededShares: create(sharedResources.length, (resource, omitted) =>
      log.warn({ resource, omitted }, "exceeded shares left out"),
    ),
    closedHttp2: create(http2CloseReasons.length, (reason, omitted) =>
      log.warn({ reason, omitted }, "closed HTTP/2 connections left out"),
    ),
    shedConnections: create(connectionShedReasons.length, (reason, omitted) =>
      log.warn({ reason, omitted }, "refused connections left out"),
    ),
  };
}
