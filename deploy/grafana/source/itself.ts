// Details of the gateway itself, one line for each: its own share of the time, its thread, its memory, its files.
import { collectionColors, health, lines, lostLineColors } from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, quantile, quantiles, rate, sumRate } from "./queries.ts";

export const itself: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "The gateway's own share",
    description: "What the chosen gateways together add to a request, waiting for the upstream left out.",
    unit: "s",
    width: 8,
    queries: quantiles("headgate_overhead_seconds", gateway),
  },
  {
    kind: "chart",
    title: "The gateway's own share by instance (p99)",
    description: "One that differs from the others has a machine or neighbours of its own to blame.",
    unit: "s",
    width: 8,
    queries: [{ expr: quantile(0.99, "headgate_overhead_seconds", gateway, "instance"), legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Processor",
    description: "Seconds of processor time a second. Requests are served by one thread: near 1 it is full.",
    unit: "percentunit",
    width: 8,
    queries: [{ expr: rate("process_cpu_seconds_total", gateway), legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Event loop by instance",
    description: "How late the thread came to its work since the last scrape: 99 of 100 times, and at worst.",
    unit: "s",
    width: 8,
    queries: [
      { expr: `nodejs_eventloop_lag_p99_seconds{${gateway}}`, legend: "{{instance}} p99" },
      { expr: `nodejs_eventloop_lag_max_seconds{${gateway}}`, legend: "{{instance}} max" },
    ],
  },
  {
    kind: "chart",
    title: "Memory by instance",
    description:
      "Resident: all of the process. Heap: JavaScript's objects. External: buffers that they hold, such as bodies under way.",
    unit: "bytes",
    width: 8,
    queries: [
      { expr: `process_resident_memory_bytes{${gateway}}`, legend: "{{instance}} resident" },
      { expr: `nodejs_heap_size_used_bytes{${gateway}}`, legend: "{{instance}} heap" },
      { expr: `nodejs_external_memory_bytes{${gateway}}`, legend: "{{instance}} external" },
    ],
  },
  {
    kind: "chart",
    title: "Heap in use",
    description: "As a share of what the heap may grow to. At 1 the process ends.",
    unit: "percentunit",
    width: 8,
    max: 1,
    queries: [
      {
        expr: `nodejs_heap_size_used_bytes{${gateway}} / headgate_heap_limit_bytes{${gateway}}`,
        legend: "{{instance}}",
      },
    ],
  },
  {
    kind: "chart",
    title: "Garbage collection",
    description: "Seconds a second spent on it, by kind. Nothing else happens in that time.",
    unit: "percentunit",
    width: 8,
    stacked: true,
    queries: [
      { expr: sumRate("nodejs_gc_duration_seconds_sum", gateway, "kind"), legend: "{{kind}}", color: collectionColors },
    ],
  },
  {
    kind: "chart",
    title: "Open files",
    description: "Sockets among them, as a share of what the process may have open (`ulimit -n`).",
    unit: "percentunit",
    width: 8,
    queries: [{ expr: `process_open_fds{${gateway}} / process_max_fds{${gateway}}`, legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Log lines not written",
    description:
      "A second. `sampled` was left out on purpose; `dropped` was lost because the output was too slow or broken.",
    unit: "cps",
    width: 8,
    queries: [
      {
        expr: sumRate("headgate_log_lines_lost_total", gateway, "reason"),
        legend: "{{reason}}",
        color: lostLineColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Running for",
    description: "Time since the start. Counters begin empty, so a restart gives every client its whole quota again.",
    unit: "s",
    width: 8,
    queries: [{ expr: `time() - process_start_time_seconds{${gateway}}`, legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Versions, and gateways that stop",
    description: "How many gateways run each version, and how many of them are draining after the signal to stop.",
    unit: "short",
    width: 8,
    queries: [
      {
        expr: `count by (version, node_version) (headgate_build_info{${gateway}})`,
        legend: "{{version}} on Node {{node_version}}",
      },
      { expr: `sum(headgate_draining{${gateway}})`, legend: "draining", color: lines.third },
    ],
  },
  {
    kind: "stat",
    title: "Files in use as they are",
    description:
      "Whether what was read is what the files say now. If not, what was read before stays in use, and the log says why.",
    unit: "short",
    width: 8,
    words: { 0: ["stale", health.failed], 1: ["current", health.well] },
    queries: [
      { expr: `min(headgate_tokens_file_current{${gateway}})`, legend: "tokens" },
      { expr: `min(headgate_tls_certificate_current{${gateway}})`, legend: "certificate" },
      { expr: `min(headgate_upstream_names_current{${gateway}})`, legend: "upstream's names" },
    ],
  },
];
