// prom-client's metrics of the process, the event loop and the heap, without those that do harm: gauges with names that
// promtool rejects, a walk over every open socket at each scrape, series that appear and disappear, and event loop figures
// that are NaN or 292 years if nothing was sampled since the last scrape. Adds the limit of the heap, which is missing.
import { getHeapStatistics } from "node:v8";
import { collectDefaultMetrics, type Histogram, type Registry } from "prom-client";
import { gauge } from "./series.ts";

export function processMetrics(registry: Registry): void {
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
  gauge(registry, "headgate_heap_limit_bytes", "What the heap may grow to; at its end the process ends.", [], (set) =>
    set({}, heap_size_limit),
  );
}
