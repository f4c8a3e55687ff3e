// The metrics of the process, the event loop and the heap. They are made once and shared by all gateways of the process:
// prom-client never stops the timer and the observer behind them, so that each gateway would leave its own running.
import { getHeapStatistics } from "node:v8";
import { collectDefaultMetrics, type Histogram, type Metric, Registry } from "prom-client";
import { Families } from "./families.ts";

let processRegistry: Registry | null = null;

export function registerProcessMetrics(registry: Registry): void {
  processRegistry ??= createProcessRegistry();
  for (const { name } of processRegistry.getMetricsAsArray()) {
    registry.registerMetric(processRegistry.getSingleMetric(name) as Metric);
  }
}

/**
 * prom-client's own metrics, without those that do harm: gauges with names that promtool rejects, a walk over every open
 * socket at each scrape, series that appear and disappear, and event loop figures that are NaN or 292 years if nothing was
 * sampled since the last scrape. Adds the limit of the heap, which is missing.
 */
function createProcessRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const counted of ["handles", "requests", "resources"]) {
    registry.removeSingleMetric(`nodejs_active_${counted}`);
    registry.removeSingleMetric(`nodejs_active_${counted}_total`);
  }
  for (const figure of ["min", "mean", "stddev"]) {
    registry.removeSingleMetric(`nodejs_eventloop_lag_${figure}_seconds`);
  }
  // Otherwise a series would appear only with the first collection of its kind.
  const collections = registry.getSingleMetric("nodejs_gc_duration_seconds") as Histogram<"kind">;
  for (const kind of ["major", "minor", "incremental", "weakcb"]) collections.zero({ kind });
  // It does not change while the process runs.
  const { heap_size_limit } = getHeapStatistics();
  const help = "The limit of the heap; beyond it the process ends.";
  new Families(registry).gauge("headgate_heap_limit_bytes", help, () => heap_size_limit);
  return registry;
}
