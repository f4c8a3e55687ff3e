// Everything the gateway reports about itself, behind one object: metrics, access log, the log of upstream failures,
// and the upstream's health as the traffic shows it. A request is observed once, when it is over.
import type { Clock } from "../core/clock.ts";
import type { TlsFailure, TunnelEnd } from "../core/connection-ends.ts";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import { shareOf } from "../core/settings.ts";
import type { SharedStoreFigures, StoreHealth } from "../core/store-link.ts";
import type { UpstreamFault, UpstreamHealth } from "../core/upstream.ts";
import { createAccessLog } from "./access-log.ts";
import { type Logger, Samplers } from "./log.ts";
import { createMetrics, type Metrics, type MetricsSources } from "./metrics.ts";
import type { ThreadRecent } from "./recent/thread-recent.ts";
import { createReloads, type Reloads } from "./reloads.ts";
import { BusiestClient, SeenUpstream } from "./seen-traffic.ts";
import { healthOf, type StoreEventCounts, type StoreSources } from "./shared-store-metrics.ts";
import { createStoreLog, type StoreLog, StoreSightings } from "./store-log.ts";
import { createUpstreamLog } from "./upstream-log.ts";
import { allLinesPerSecond, createWarnings, type Warnings } from "./warnings.ts";
import type { FiguresWanted, WorkerFigures } from "./worker-figures.ts";

export interface TelemetryOptions
  extends Omit<MetricsSources, "upstreamHealth" | "logLines" | "busiestClientRatio" | "activeSeconds" | "store"> {
  readonly log: Logger;
  readonly clock: Clock;
  /** Log lines that were lost so far because the output was too slow or broken. */
  readonly droppedLogLines: () => number;
  /** How many threads carry traffic; from 2 on, this is one of them. Default: 1. */
  readonly workers?: number;
  /** Null, by default: the counters are not shared. */
  readonly store?: TelemetryStore | null;
  /** Null, by default: nothing is remembered of the last minutes. */
  readonly recent?: ThreadRecent | null;
}

interface TelemetryStore {
  /** Of this thread. */
  readonly figures: () => SharedStoreFigures;
  /** In memory that all threads share. Default: there is one thread. */
  readonly sightings?: StoreSightings | undefined;
  /** As in StoreSources. Default: null. */
  readonly rules?: StoreSources["rules"];
}

export interface Telemetry
  extends Warnings,
    Reloads,
    StoreLog,
    Pick<StoreEventCounts, "storeAnswered" | "storeWaited"> {
  readonly metrics: Metrics;
  /** Counts and logs a request. `path`: its target, as it came. */
  finish(exchange: ExchangeRecord, path: string): void;
  /** The same without a line in the access log. */
  finishUnlogged(exchange: ExchangeRecord, path: string): void;
  upstreamAnswered(nowMs: number): void;
  /** A reload has replaced the upstream. */
  upstreamReplaced(): void;
  upstreamFailed(fault: UpstreamFault): void;
  /** A client's handshake failed; `code` is OpenSSL's or the kernel's. */
  tlsFailed(reason: TlsFailure, code: string): void;
  upstreamHealth(): UpstreamHealth;
  /** Null: the counters are not shared. */
  storeHealth(): StoreHealth | null;
  tunnelEnded(end: TunnelEnd): void;
  /** What this thread tells the main thread. */
  figures(wanted: FiguresWanted): Promise<WorkerFigures>;
  /** At most so many lines of a kind that can be repeated without end are written in a second. */
  readonly linesPerSecond: number;
  /** Reports the lines that were omitted, and stops. */
  close(): void;
}

export function createTelemetry(options: TelemetryOptions): Telemetry {
  const { log, clock, workers = 1, store = null, recent = null } = options;
  const linesPerSecond = shareOf(allLinesPerSecond, workers);
  const samplers = new Samplers();
  const accessLog = createAccessLog(log, { samplers, refusedPerSecond: linesPerSecond });
  const logFailure = createUpstreamLog(log, clock, samplers, linesPerSecond);
  const { sightings = new StoreSightings(StoreSightings.createMemory(), 0) } = store ?? {};
  const storeLog = createStoreLog(log, clock, samplers, linesPerSecond, sightings);
  const upstream = new SeenUpstream();
  const busiest = new BusiestClient();
  const sources = {
    ...options,
    store: store && { figures: store.figures, health: store.figures, rules: store.rules ?? null },
    busiestClientRatio: () => busiest.ratio(clock.monotonicMs()),
    upstreamHealth: () => upstream.health,
    activeSeconds: () => [activeSeconds()],
    logLines: () => ({ sampled: samplers.omitted, dropped: options.droppedLogLines() }),
  };
  const metrics = createMetrics(sources, workers > 1 ? "worker" : "only");
  const finishUnlogged = (exchange: ExchangeRecord, path: string): void => {
    metrics.observe(exchange);
    busiest.count(exchange.client, exchange.endedMs);
    recent?.finish(exchange, path);
  };
  return {
    metrics,
    linesPerSecond,
    ...createReloads(options, metrics),
    ...createWarnings(options, metrics, samplers, linesPerSecond),
    ...storeTelemetry(store, storeLog, metrics),
    finish(exchange, path) {
      finishUnlogged(exchange, path);
      accessLog.record(exchange, path);
    },
    finishUnlogged,
    upstreamAnswered: (nowMs) => upstream.answered(nowMs),
    upstreamReplaced: () => upstream.replaced(),
    upstreamFailed(fault) {
      metrics.upstreamError(fault.reason);
      recent?.history.upstreamFailed(fault.reason);
      upstream.failed(fault.reason, clock.monotonicMs());
      logFailure(fault);
    },
    tlsFailed(reason, code) {
      metrics.tlsFailed(reason);
      log.debug({ reason, code }, "TLS handshake failed");
    },
    upstreamHealth: () => upstream.health,
    // Each tunnel has cost a request, so the lines need no bound.
    tunnelEnded: (end) => log.info(end, "tunnel ended"),
    async figures(wanted) {
      const { available, ejected } = options.upstreamAddresses();
      return {
        families: wanted === "facts" ? null : await metrics.figures(),
        facts: {
          upstream: upstream.seen,
          addresses: { available, ejected },
          busiest: busiest.share(clock.monotonicMs()),
          activeSeconds: activeSeconds(),
          store: store && healthOf(store.figures()),
        },
      };
    },
    close: () => samplers.close(),
  };
}

function storeTelemetry(
  store: TelemetryStore | null,
  { storeChanged, storeConnectFailed, storeIdentified, storeShardGone }: StoreLog,
  metrics: StoreEventCounts,
): StoreLog & Pick<Telemetry, "storeAnswered" | "storeWaited" | "storeHealth"> {
  return {
    ...{ storeChanged, storeIdentified, storeShardGone },
    storeConnectFailed(shard, failure) {
      metrics.storeConnectFailed(failure.kind);
      storeConnectFailed(shard, failure);
    },
    ...{ storeAnswered: metrics.storeAnswered, storeWaited: metrics.storeWaited },
    storeHealth: () => store && healthOf(store.figures()),
  };
}

/** Returns the time in which the event loop of this thread was not idle since its start. */
export function activeSeconds(): number {
  return performance.eventLoopUtilization().active / 1000;
}
