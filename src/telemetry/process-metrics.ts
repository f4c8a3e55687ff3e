// The metrics of the process, the event loop and the heap. They are made once and shared by all gateways of a thread:
// prom-client never stops the timer and the observer behind them, so that each gateway would leave its own running.
import { type Histogram as DelayHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import { collectDefaultMetrics, type Histogram, type Metric, Registry } from "prom-client";
import { Families, type FamilyReader, once } from "./families.ts";
import { type FamilyFigures, type FamilyType, type Merge, samplesOf } from "./figures.ts";

let threadRegistry: Registry | null = null;

/**
 * Each thread has an event loop and a heap of its own. Those of the busiest thread count: it is what delays requests, and
 * a thread ends when its heap reaches its own limit.
 */
const merges: Readonly<Record<string, Merge>> = {
  nodejs_external_memory_bytes: "sum",
  nodejs_gc_duration_seconds: "sum",
  nodejs_version_info: "process",
};

/** Returns the families of the process. `isWanted` as for Families. `isLagApart`: without those of `readDelays`. */
export function processFamilies(isWanted: (merge: Merge) => boolean, isLagApart: boolean): readonly FamilyReader[] {
  threadRegistry ??= createThreadRegistry(isLagApart);
  const registry = threadRegistry;
  const families = new Families(isWanted);
  for (const { name } of registry.getMetricsAsArray()) {
    const merge = merges[name] ?? (name.startsWith("process_") ? "process" : "max");
    if (!isWanted(merge) || (isLagApart && delayNames.includes(name))) continue;
    families.add(() => figuresOfMetric(registry.getSingleMetric(name) as Metric, merge));
  }
  // It does not change while the thread runs.
  const { heap_size_limit } = getHeapStatistics();
  const help = "The limit of the heap of each thread; beyond it the thread ends, and without workers the process.";
  families.gauge("headgate_heap_limit_bytes", help, () => heap_size_limit, { merge: "min" });
  return families.all;
}

/** Returns the figures of a metric of prom-client. */
export async function figuresOfMetric(metric: Metric, merge: Merge): Promise<FamilyFigures> {
  const { name, help, type, values } = await metric.get();
  return { name, help, type: `${type}` as FamilyType, merge, ...samplesOf(name, values) };
}

/**
 * prom-client's own metrics, without those that do harm: gauges with names that promtool rejects, a walk over every open
 * socket at each scrape, series that appear and disappear, event loop figures that are NaN or 292 years if nothing was
 * sampled since the last scrape, and 39 series for the parts of the heap.
 */
function createThreadRegistry(isLagApart: boolean): Registry {
  const registry = new Registry();
  // The sum and the count are enough. prom-client writes a bound of 1 as `le="1"`, which Prometheus 3 rewrites.
  const precision = isLagApart ? { eventLoopMonitoringPrecision: hardlyEverMs } : {};
  collectDefaultMetrics({ register: registry, gcDurationBuckets: [0.1], ...precision });
  const active = ["handles", "requests", "resources"].map((counted) => `nodejs_active_${counted}`);
  const totals = active.map((name) => `${name}_total`);
  const lag = ["min", "mean", "stddev"].map((figure) => `nodejs_eventloop_lag_${figure}_seconds`);
  const spaces = ["total", "used", "available"].map((figure) => `nodejs_heap_space_size_${figure}_bytes`);
  for (const name of [...active, ...totals, ...lag, ...spaces]) registry.removeSingleMetric(name);
  // Otherwise a series would appear only with the first collection of its kind.
  const collections = registry.getSingleMetric("nodejs_gc_duration_seconds") as Histogram<"kind">;
  for (const kind of ["major", "minor", "incremental", "weakcb"]) collections.zero({ kind });
  return registry;
}

// The delays of a worker's event loop since the last scrape. The main thread reads them, and begins the next interval, without
// asking the worker: both see one histogram, which Node shares when it is posted.

const delayFigures = ["max", "p50", "p90", "p99"] as const;
const delayNames: readonly string[] = delayFigures.map((figure) => `nodejs_eventloop_lag_${figure}_seconds`);
/** prom-client always has a histogram of its own, with a timer. */
const hardlyEverMs = 1_000_000;

/** In a worker: returns what it can post to the main thread. Keeps it, because it would count no more as garbage. */
export const eventLoopDelays = once((): DelayHistogram => {
  const delays = monitorEventLoopDelay({ resolution: 10 });
  delays.enable();
  return delays;
});

/** Returns the figures since the last call. */
export function readDelays(histogram: DelayHistogram): FamilyFigures[] {
  const read = (figure: (typeof delayFigures)[number]): number =>
    figure === "max" ? histogram.max : histogram.percentile(Number(figure.slice(1)));
  const families = delayFigures.map((figure, i): FamilyFigures => {
    const name = delayNames[i] as string;
    const values = Float64Array.of(read(figure) / 1e9);
    return { name, help: "", type: "gauge", merge: "max", series: `${name} `, values };
  });
  histogram.reset();
  return families;
}
