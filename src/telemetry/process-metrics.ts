// The metrics of the process, the event loop and the heap. They are made once and shared by all gateways of a thread:
// prom-client never stops the timer and the observer behind them, so that each gateway would leave its own running.
import { getHeapStatistics } from "node:v8";
import { collectDefaultMetrics, type Histogram, Registry } from "prom-client";
import { Families, type FamilyReader } from "./families.ts";
import { figuresOfText, type Merge } from "./figures.ts";

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

/** Returns the families of the process. `isWanted` as for Families. */
export function processFamilies(isWanted: (merge: Merge) => boolean): readonly FamilyReader[] {
  threadRegistry ??= createThreadRegistry();
  const registry = threadRegistry;
  const families = new Families(isWanted);
  for (const { name } of registry.getMetricsAsArray()) {
    const merge = merges[name] ?? (name.startsWith("process_") ? "process" : "max");
    if (isWanted(merge))
      families.all.push(async () => figuresOfText(await registry.getSingleMetricAsString(name), merge));
  }
  // It does not change while the thread runs.
  const { heap_size_limit } = getHeapStatistics();
  const help = "The limit of the heap of each thread; beyond it the thread ends, and without workers the process.";
  families.gauge("headgate_heap_limit_bytes", help, () => heap_size_limit, { merge: "min" });
  return families.all;
}

/**
 * prom-client's own metrics, without those that do harm: gauges with names that promtool rejects, a walk over every open
 * socket at each scrape, series that appear and disappear, event loop figures that are NaN or 292 years if nothing was
 * sampled since the last scrape, and 39 series for the parts of the heap.
 */
function createThreadRegistry(): Registry {
  const registry = new Registry();
  // The sum and the count are enough. prom-client writes a bound of 1 as `le="1"`, which Prometheus 3 rewrites.
  collectDefaultMetrics({ register: registry, gcDurationBuckets: [0.1] });
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
