// prom-client's own metrics of the process, the event loop and the heap, less those that do harm: gauges whose names
// promtool objects to, a walk over every open socket at each scrape, series that come and go, and figures of the event
// loop that are NaN or 292 years when nothing was sampled since the last scrape. And the heap's bound, which it lacks.
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
  // Otherwise a series appears with the first collection of its kind.
  const collections = registry.getSingleMetric("nodejs_gc_duration_seconds") as Histogram<"kind">;
  for (const kind of ["major", "minor", "incremental", "weakcb"]) collections.zero({ kind });
  // It stands from the start of the process on: V8 has no way to change it.
  const { heap_size_limit } = getHeapStatistics();
  gauge(registry, "headgate_heap_limit_bytes", "What the heap may grow to; at its end the process ends.", [], (set) =>
    set({}, heap_size_limit),
  );
}
