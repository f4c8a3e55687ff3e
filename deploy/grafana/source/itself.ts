// Details of the gateway itself, with one line for each instance: overhead, CPU, event loop, memory, open files, log.
import { collectionColors, health, lines, lostLineColors, recentColors, reloadColors, trialColors } from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, ofGateways, quantile, quantiles, rate, sumRate } from "./queries.ts";

export const itself: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "Gateway overhead",
    description: "Time that the chosen gateways add to a request. Waiting for the upstream is excluded.",
    unit: "s",
    width: 12,
    queries: quantiles("headgate_overhead_seconds", gateway),
  },
  {
    kind: "chart",
    title: "Gateway overhead by instance (p99)",
    description: "If one instance is slower than the others, look at its machine.",
    unit: "s",
    width: 12,
    queries: [{ expr: quantile(0.99, "headgate_overhead_seconds", gateway, "instance"), legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "CPU",
    description:
      "CPU time as a share of one core. Each worker can use one core, and the main thread takes a little more.",
    unit: "percentunit",
    width: 8,
    queries: [{ expr: ofGateways(rate("process_cpu_seconds_total", gateway)), legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Busy time by worker",
    description:
      "Share of the time in which the event loop of a worker is not idle. Near 100 % it is saturated. If others are not, few connections carry most requests.",
    unit: "percentunit",
    width: 8,
    queries: [
      { expr: rate("headgate_event_loop_active_seconds_total", gateway), legend: "{{instance}} worker {{worker}}" },
    ],
  },
  {
    kind: "chart",
    title: "Event loop lag by instance",
    description: "How late the thread ran its work since the last scrape: 99th percentile and maximum.",
    unit: "s",
    width: 8,
    queries: [
      { expr: ofGateways(`nodejs_eventloop_lag_p99_seconds{${gateway}}`), legend: "{{instance}} p99" },
      { expr: ofGateways(`nodejs_eventloop_lag_max_seconds{${gateway}}`), legend: "{{instance}} max" },
    ],
  },
  {
    kind: "chart",
    title: "Memory by instance",
    description:
      "`resident`: the whole process. `heap`: JavaScript objects. `external`: buffers outside the heap, such as bodies in transit.",
    unit: "bytes",
    width: 8,
    queries: [
      { expr: ofGateways(`process_resident_memory_bytes{${gateway}}`), legend: "{{instance}} resident" },
      { expr: ofGateways(`nodejs_heap_size_used_bytes{${gateway}}`), legend: "{{instance}} heap" },
      { expr: ofGateways(`nodejs_external_memory_bytes{${gateway}}`), legend: "{{instance}} external" },
    ],
  },
  {
    kind: "chart",
    title: "Heap usage",
    description:
      "Heap in use as a share of its limit. With one thread, the process ends when the heap reaches the limit; one of several workers is replaced.",
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
    title: "Memory for the last minutes",
    description:
      "What is remembered for the admin API, summed over the chosen gateways. `refusals`: the last ones, bounded by `admin.recent.refusals`. `keys`: those that were refused most, bounded by `admin.recent.keys`. `history`: 15 minutes.",
    unit: "bytes",
    width: 8,
    stacked: true,
    queries: [{ expr: `sum by (part) (headgate_recent_bytes{${gateway}})`, legend: "{{part}}", color: recentColors }],
  },
  {
    kind: "chart",
    title: "Garbage collection",
    description: "Share of the time spent on each kind of collection. Requests wait meanwhile.",
    unit: "percentunit",
    width: 8,
    stacked: true,
    queries: [
      {
        expr: `sum by (kind) (${ofGateways(rate("nodejs_gc_duration_seconds_sum", gateway), "kind")})`,
        legend: "{{kind}}",
        color: collectionColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Open files",
    description: "Open files, sockets included, as a share of what the process may open (`ulimit -n`).",
    unit: "percentunit",
    width: 8,
    queries: [
      { expr: ofGateways(`process_open_fds{${gateway}} / process_max_fds{${gateway}}`), legend: "{{instance}}" },
    ],
  },
  {
    kind: "chart",
    title: "Lost log lines",
    description:
      "Lines per second. `sampled`: left out on purpose. `dropped`: lost because the output was too slow or broken.",
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
    title: "Uptime",
    description:
      "Time since the start. Without a snapshot of the counters, a restart gives every client its full quota again.",
    unit: "s",
    width: 12,
    queries: [{ expr: ofGateways(`time() - process_start_time_seconds{${gateway}}`), legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Versions, workers and draining gateways",
    description:
      "How many gateways run each version, how many are draining after a signal to stop, and how many of their workers accept connections.",
    unit: "short",
    width: 12,
    queries: [
      {
        expr: `count by (version, node_version) (headgate_build_info{${gateway}})`,
        legend: "{{version}} on Node {{node_version}}",
      },
      { expr: `sum(headgate_draining{${gateway}})`, legend: "draining", color: lines.third },
      { expr: `sum(headgate_workers{${gateway}, state="serving"})`, legend: "workers", color: lines.second },
    ],
  },
  {
    kind: "chart",
    title: "Reloads",
    description:
      "Reloads per second. `failed`: the configuration, or a file that it names, was wrong; what was in use before stays in use.",
    unit: "cps",
    width: 8,
    noValue: "no reloads",
    queries: [
      {
        expr: `${sumRate("headgate_config_reloads_total", gateway, "result")} > 0`,
        legend: "{{result}}",
        color: reloadColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Reloads on trial",
    description:
      "`on trial`: gateways whose configuration has to be confirmed; then what became of trials and why, within the last 5 minutes. `confirmed`: the new configuration stays. `taken_back`: the one before is in force again.",
    unit: "short",
    width: 8,
    noValue: "none",
    queries: [
      { expr: `sum(headgate_reload_on_trial{${gateway}}) > 0`, legend: "on trial", color: lines.first },
      {
        expr: `sum by (reason, outcome) (increase(headgate_reload_trials_total{${gateway}}[5m])) > 0`,
        legend: "{{reason}} {{outcome}}",
        color: trialColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Age of the configuration",
    description: "Time since the configuration was last loaded without an error, at the start or by a reload.",
    unit: "s",
    width: 8,
    queries: [{ expr: `time() - headgate_config_loaded_timestamp_seconds{${gateway}}`, legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Keys that need a restart",
    description: "Keys of the configuration whose new values are not in force before a restart. The log names them.",
    unit: "short",
    width: 8,
    noValue: "none",
    queries: [{ expr: `headgate_config_restart_required{${gateway}} > 0`, legend: "{{instance}}" }],
  },
  {
    kind: "stat",
    title: "Files and names up to date",
    description:
      "`stale`: the last reading of a file, or the last lookup of a name, failed. The earlier content or addresses stay in use, and the log gives the reason.",
    unit: "short",
    width: 8,
    words: { 0: ["stale", health.failed], 1: ["current", health.well] },
    queries: [
      { expr: `min(headgate_config_current{${gateway}})`, legend: "configuration" },
      { expr: `min(headgate_tokens_file_current{${gateway}})`, legend: "tokens" },
      { expr: `min(headgate_tls_certificate_current{${gateway}})`, legend: "certificate" },
      { expr: `min(headgate_upstream_names_current{${gateway}})`, legend: "upstream's names" },
    ],
  },
  {
    kind: "chart",
    title: "Age of the last snapshot",
    description:
      "Time since the counters were last written to `counters.snapshot.path`. A crash loses what was counted since then. Without a path there is no line.",
    unit: "s",
    width: 8,
    queries: [{ expr: `time() - (headgate_snapshot_timestamp_seconds{${gateway}} > 0)`, legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Failed snapshots",
    description: "Snapshots of the counters per second that could not be written. The log has the reason.",
    unit: "cps",
    width: 8,
    noValue: "none failed",
    queries: [
      { expr: `${sumRate("headgate_snapshot_failures_total", gateway, "instance")} > 0`, legend: "{{instance}}" },
    ],
  },
  {
    kind: "chart",
    title: "Size of the snapshot",
    description: "Size of the last snapshot of the counters: about half of the memory of the keys in the table.",
    unit: "bytes",
    width: 8,
    queries: [{ expr: `headgate_snapshot_bytes{${gateway}}`, legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Certificate expires in",
    description: "Time until the certificate in use expires; of several gateways, the shortest.",
    unit: "s",
    width: 8,
    noValue: "no TLS",
    queries: [
      {
        expr: `min(headgate_tls_certificate_expiry_timestamp_seconds{${gateway}} > 0) - time()`,
        legend: "time left",
        color: lines.first,
      },
    ],
  },
];
