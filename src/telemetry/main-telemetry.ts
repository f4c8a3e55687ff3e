// What the main thread reports beside workers that carry the traffic: the metrics of all threads, and what it does itself.

import { Samplers } from "./log.ts";
import { createMetrics } from "./metrics.ts";
import { createReloads } from "./reloads.ts";
import { noTraffic, type RecentBytes, type TrafficSources } from "./scraped-metrics.ts";
import { type StoreSources, unusedStore } from "./shared-store-metrics.ts";
import type { Telemetry, TelemetryOptions, ThreadScrape, ThreadSources } from "./telemetry.ts";
import { allLinesPerSecond, createWarnings } from "./warnings.ts";
import type { WorkerReadings } from "./worker-figures.ts";

interface MainTelemetryOptions
  extends Pick<TelemetryOptions, "log" | "clock" | "droppedLogLines">,
    Omit<ThreadSources, keyof TrafficSources | "store"> {
  readonly workers: WorkerReadings;
  /** The configured prefixes. */
  readonly routes: readonly string[];
  /** Whether the threads share the counters with other gateways. Default: false. */
  readonly hasStore?: boolean;
  /** As in StoreSources. Default: null. */
  readonly sharedRules?: StoreSources["rules"];
  /** As in TrafficSources. */
  readonly recentBytes?: () => RecentBytes;
}

/** Of the process, whether or not the main thread carries the traffic. */
export type MainTelemetry = Pick<Telemetry, "metrics" | "reloaded" | "trialChanged" | "connectionShed" | "close"> &
  Pick<ThreadScrape, "text" | "upstreamHealth" | "storeHealth">;

/** In the main thread beside workers: it carries no traffic, and its metrics are those of all threads. */
export function createMainTelemetry(options: MainTelemetryOptions): MainTelemetry {
  const { workers, routes, hasStore = false, sharedRules = null } = options;
  const samplers = new Samplers(options.log, options.clock, allLinesPerSecond);
  const metrics = createMetrics({ hasStore, role: "main", merged: (own) => workers.merged(own) });
  metrics.addSeries({ routes, policies: options.limiter.stats().map(({ policy }) => policy.name) });
  const { text } = metrics.scraping({
    ...options,
    ...noTraffic,
    upstreamAddresses: () => ({ ...noTraffic.upstreamAddresses(), ...workers.addresses() }),
    busiestClientRatio: () => workers.busiestClientRatio(),
    upstreamHealth: () => workers.upstreamHealth(),
    store: hasStore ? { figures: () => unusedStore, health: () => workers.storeHealth(), rules: sharedRules } : null,
    activeSeconds: () => workers.activeSeconds(),
    logLines: () => ({ sampled: samplers.omitted, dropped: options.droppedLogLines() }),
  });
  return {
    ...{ metrics, text },
    ...createReloads(options, metrics),
    connectionShed: createWarnings(samplers, metrics, options).connectionShed,
    upstreamHealth: () => workers.upstreamHealth(),
    storeHealth: () => (hasStore ? workers.storeHealth() : null),
    close: () => samplers.close(),
  };
}
