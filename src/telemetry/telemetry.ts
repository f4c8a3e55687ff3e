// Everything the gateway reports about itself, behind one object: metrics, access log, the log of upstream failures,
// and the upstream's health as the traffic shows it. A request is observed once, when it is over.
import type { Histogram as DelayHistogram } from "node:perf_hooks";
import { type CellRange, Cells, InCells } from "../core/cells.ts";
import type { Clock } from "../core/clock.ts";
import type { TlsFailure, TunnelEnd } from "../core/connection-ends.ts";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import { shareOf } from "../core/settings.ts";
import type { StoreHealth } from "../core/store-link.ts";
import {
  type AddressState,
  type UpstreamErrorReason,
  type UpstreamFault,
  type UpstreamHealth,
  upstreamErrorReasons,
} from "../core/upstream.ts";
import { createAccessLog } from "./access-log.ts";
import type { CellFamily } from "./families.ts";
import type { FamilyFigures } from "./figures.ts";
import { type Logger, Samplers } from "./log.ts";
import { createMetrics, type Metrics, type Scrape, type ScrapeSources } from "./metrics.ts";
import { eventLoopDelays } from "./process-metrics.ts";
import type { ThreadRecent } from "./recent/thread-recent.ts";
import { createReloads, type Reloads } from "./reloads.ts";
import { healthOf, type StoreSources } from "./shared-store-metrics.ts";
import { createStoreLog, type StoreLog, StoreSightings } from "./store-log.ts";
import { createUpstreamLog } from "./upstream-log.ts";
import { allLinesPerSecond, createWarnings, type Warnings } from "./warnings.ts";

export interface TelemetryOptions {
  readonly log: Logger;
  readonly clock: Clock;
  /** For what is counted. Default: no other thread reads it. */
  readonly cells?: Cells;
  /** Log lines that were lost so far because the output was too slow or broken. */
  readonly droppedLogLines: () => number;
  /** How many threads carry traffic; from 2 on, this is one of them. Default: 1. */
  readonly workers?: number;
  /** Null, by default: the counters are not shared. `sightings`: in memory that all threads share; by default there is one thread. */
  readonly store?: { readonly sightings?: StoreSightings | undefined } | null;
  /** Null, by default: nothing is remembered of the last minutes. */
  readonly recent?: ThreadRecent | null;
}

/** These are read when a scrape comes. */
export interface ThreadSources
  extends Omit<ScrapeSources, "upstreamHealth" | "logLines" | "busiestClientRatio" | "activeSeconds" | "store"> {
  /** Null: the counters are not shared. `rules`: as in StoreSources. */
  readonly store: Pick<StoreSources, "figures" | "rules"> | null;
}

/** The figures of a thread. */
export interface ThreadScrape extends Pick<Scrape, "text"> {
  upstreamHealth(): UpstreamHealth;
  /** Null: the counters are not shared. */
  storeHealth(): StoreHealth | null;
  /** Returns the cells in which this thread counts, for the main thread. A reload may add some. */
  cells(): Omit<ThreadCells, "outcomes">;
  /** Returns the other figures, which this thread hands over to the main thread. */
  report(): Promise<Omit<ThreadReport, "addresses">>;
}

export interface Telemetry extends Warnings, Reloads, StoreLog {
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
  tunnelEnded(end: TunnelEnd): void;
  /** Must be called once, when the parts are there that report to this one and that `sources` ask. */
  scraping(sources: ThreadSources): ThreadScrape;
  /** At most so many lines of a kind that can be repeated without end are written in a second. */
  readonly linesPerSecond: number;
  /** Reports the lines that were omitted, and stops. */
  close(): void;
}

/** The cells in which a worker thread counts. The main thread reads them. */
export interface ThreadCells {
  readonly families: readonly CellFamily[];
  /** By policy; of OutcomeCells. */
  readonly outcomes: ReadonlyMap<string, CellRange>;
  /** Of SeenUpstream. */
  readonly upstream: CellRange;
  /** As in `readDelays`. */
  readonly delays: DelayHistogram;
}

/** A worker thread hands this over once a second. */
export interface ThreadReport {
  /** Those that are not counted in cells. */
  readonly families: readonly FamilyFigures[];
  readonly addresses: readonly AddressState[];
  readonly busiest: ClientShare;
  /** Null: the counters are not shared. */
  readonly store: StoreHealth | null;
}

export function createTelemetry(options: TelemetryOptions): Telemetry {
  const { log, clock, workers = 1, store = null, recent = null } = options;
  const samplers = new Samplers(log, clock, shareOf(allLinesPerSecond, workers));
  const accessLog = createAccessLog(samplers);
  const logFailure = createUpstreamLog(samplers);
  const { sightings = new StoreSightings(StoreSightings.createMemory(), 0) } = store ?? {};
  const { cells = new Cells() } = options;
  const seen = cells.take(SeenUpstream.cellCount);
  const upstream = new SeenUpstream(seen);
  const busiest = new BusiestClient();
  const metrics = createMetrics({ hasStore: store !== null, cells, role: workers > 1 ? "worker" : "only" });
  const finishUnlogged = (exchange: ExchangeRecord, path: string): void => {
    metrics.observe(exchange);
    if (exchange.isProbe) return;
    busiest.count(exchange.client, exchange.endedMs);
    recent?.finish(exchange, path);
  };
  return {
    metrics,
    linesPerSecond: samplers.perSecond,
    ...createReloads(options, metrics),
    ...createWarnings(samplers, metrics, options),
    ...createStoreLog(samplers, metrics, sightings),
    finish(exchange, path) {
      finishUnlogged(exchange, path);
      if (!exchange.isProbe) accessLog.record(exchange, path);
    },
    finishUnlogged,
    upstreamAnswered: (nowMs) => upstream.answered(nowMs),
    upstreamReplaced: () => upstream.replaced(),
    upstreamFailed(fault) {
      metrics.upstreamError(fault.reason);
      recent?.upstreamFailed(fault);
      upstream.failed(fault.reason, clock.monotonicMs());
      logFailure(fault);
    },
    tlsFailed(reason, code) {
      metrics.tlsFailed(reason);
      log.debug({ reason, code }, "TLS handshake failed");
    },
    // Each tunnel has cost a request, so the lines need no bound.
    tunnelEnded: (end) => log.info(end, "tunnel ended"),
    scraping({ store: shared, ...sources }) {
      const share = (): ClientShare => busiest.share(clock.monotonicMs());
      const upstreamHealth = (): UpstreamHealth => upstream.health;
      const { text, inCells, figures } = metrics.scraping({
        ...sources,
        store: shared && { ...shared, health: shared.figures },
        busiestClientRatio: () => ratioOf([share()]),
        upstreamHealth,
        activeSeconds: () => [activeSeconds()],
        logLines: () => ({ sampled: samplers.omitted, dropped: options.droppedLogLines() }),
      });
      const storeHealth = (): StoreHealth | null => shared && healthOf(shared.figures());
      return {
        ...{ text, storeHealth, upstreamHealth },
        cells: () => ({ families: inCells(), upstream: seen, delays: eventLoopDelays() }),
        report: async () => ({ families: await figures(), busiest: share(), store: storeHealth() }),
      };
    },
    close: () => samplers.close(),
  };
}

/** Returns the time in which the event loop of this thread was not idle since its start. */
export function activeSeconds(): number {
  return performance.eventLoopUtilization().active / 1000;
}

// What the traffic of a thread shows: the upstream's state, and the share of the busiest client. Those of several threads can
// be joined.

/** `atMs`: the instant of the last attempt, by the monotonic clock that all threads share; -Infinity before the first. */
export interface SeenHealth extends UpstreamHealth {
  readonly atMs: number;
}

/** In a cell, each is the number of its place. */
const healths: readonly UpstreamHealth[] = [
  { state: "unknown", reason: null },
  { state: "up", reason: null },
  ...upstreamErrorReasons.map((reason) => ({ state: "down", reason }) as const),
];

/** The state of the upstream, as the traffic of one thread shows it. In cells: the state, and the instant of the last attempt. */
export class SeenUpstream extends InCells {
  static readonly cellCount = 2;

  get health(): UpstreamHealth {
    return healths[this.cells[this.at] as number] as UpstreamHealth;
  }

  get seen(): SeenHealth {
    const { health } = this;
    const atMs = health.state === "unknown" ? Number.NEGATIVE_INFINITY : (this.cells[this.at + 1] as number);
    return { ...health, atMs };
  }

  answered(nowMs: number): void {
    this.#set(1, nowMs);
  }

  failed(reason: UpstreamErrorReason, nowMs: number): void {
    // Running out of connections says nothing about whether the upstream can be reached.
    if (reason === "overloaded") return;
    this.#set(2 + upstreamErrorReasons.indexOf(reason), nowMs);
  }

  /** A reload has replaced the upstream. */
  replaced(): void {
    this.#set(0, 0);
  }

  #set(health: number, nowMs: number): void {
    this.cells[this.at] = health;
    this.cells[this.at + 1] = nowMs;
  }
}

const intervalMs = 60_000;

/** With fewer requests, a share says nothing. */
const minRequests = 100;

/** What a client sent of the requests of the last complete minute. */
interface ClientShare {
  /** The winner of the vote; empty before there was one. */
  readonly client: string;
  readonly ofClient: number;
  readonly ofAll: number;
}

/**
 * Returns the share that one client has of all requests; 0 if none has more than half, or there were few. Each of `shares`
 * is of one thread. A client is counted only in threads where it won the vote, so the result is never too high.
 */
export function ratioOf(shares: readonly ClientShare[]): number {
  const ofAll = shares.reduce((sum, share) => sum + share.ofAll, 0);
  const byClient = new Map<string, number>();
  for (const { client, ofClient } of shares) byClient.set(client, (byClient.get(client) ?? 0) + ofClient);
  const ratio = ofAll < minRequests ? 0 : Math.max(...byClient.values()) / ofAll;
  return ratio > 0.5 ? ratio : 0;
}

const noShare: ClientShare = { client: "", ofClient: 0, ofAll: 0 };

/**
 * The share of the requests that the busiest client sends. If nearly all come from one client, it is probably a proxy
 * that is not trusted, whose clients share one quota. Keeps two clients, however many there are: a vote (Boyer and
 * Moore) finds the client with more than half of the requests of an interval, and its requests of the next interval are
 * counted.
 */
export class BusiestClient {
  #candidate = "";
  #votes = 0;
  /** The winner of the vote in the interval before. */
  #counted = "";
  #ofCounted = 0;
  #requests = 0;
  #endsMs = Number.NEGATIVE_INFINITY;
  #share = noShare;

  /** `nowMs` is an instant of the monotonic clock. */
  count(client: string, nowMs: number): void {
    if (nowMs >= this.#endsMs) this.#endInterval(nowMs);
    this.#requests += 1;
    if (client === this.#counted) this.#ofCounted += 1;
    if (client === this.#candidate) this.#votes += 1;
    else if (this.#votes > 0) this.#votes -= 1;
    else {
      this.#candidate = client;
      this.#votes = 1;
    }
  }

  /** Returns the share in the last complete minute. */
  share(nowMs: number): ClientShare {
    if (nowMs >= this.#endsMs) this.#endInterval(nowMs);
    return this.#share;
  }

  #endInterval(nowMs: number): void {
    // An interval without a request may have passed since.
    const isLast = nowMs < this.#endsMs + intervalMs;
    this.#share = isLast ? { client: this.#counted, ofClient: this.#ofCounted, ofAll: this.#requests } : noShare;
    this.#counted = this.#candidate;
    this.#candidate = "";
    this.#votes = 0;
    this.#ofCounted = 0;
    this.#requests = 0;
    this.#endsMs = nowMs + intervalMs;
  }
}
