// The overview, visible without scrolling: traffic, refusals, the gateway itself and the upstream. A row of numbers
// first, then the same four subjects over time.
import { counterMemoryColors, health, lines, refusalColors, statusClassColors, upstreamErrorColors } from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { decided, gateway, ofGateways, quantile, requests, share, sumRate } from "./queries.ts";

export const firstScreen: readonly AnyPanelSpec[] = [
  {
    kind: "stat",
    title: "Requests (mean)",
    description:
      "Requests per second, the mean of the time range on the chosen routes, whatever their status, plus the checks that an ingress asked for.",
    unit: "reqps",
    width: 4,
    queries: [
      {
        expr: `${sumRate("headgate_requests_total", requests)} + ${sumRate("headgate_ext_auth_checks_total", `${gateway}, outcome=~"admitted|denied"`)}`,
        legend: "requests",
      },
    ],
  },
  {
    kind: "stat",
    title: "Throttled (mean)",
    description:
      "Share of all requests, the mean of the time range, that exceeded a limit and got 429. The row “Limits and tokens” shows which policy refused. A high share has one of two causes: one client sends too much, or many clients are charged as one address (see `clientAddress.trustedProxies`).",
    unit: "percentunit",
    width: 4,
    limits: [0.1, 0.5],
    queries: [
      {
        expr: share(sumRate("headgate_refusals_total", `${gateway}, reason="throttled"`), decided),
        legend: "throttled",
      },
    ],
  },
  {
    kind: "stat",
    title: "Refused otherwise (mean)",
    description:
      'Share of all requests, the mean of the time range, that the gateway answered itself with a status other than 429. The chart "Refused by reason" shows the reasons, such as a missing token or a failed upstream.',
    unit: "percentunit",
    width: 4,
    limits: [0.05, 0.25],
    queries: [
      {
        expr: share(sumRate("headgate_refusals_total", `${gateway}, reason!="throttled"`), decided),
        legend: "refused",
      },
    ],
  },
  {
    kind: "stat",
    title: "5xx (mean)",
    description:
      "Share, the mean of the time range, of the requests on the chosen routes that ended in a 5xx, from the upstream or from the gateway.",
    unit: "percentunit",
    width: 4,
    limits: [0.01, 0.05],
    queries: [
      {
        expr: share(
          sumRate("headgate_requests_total", `${requests}, status_class="5xx"`),
          sumRate("headgate_requests_total", requests),
        ),
        legend: "5xx",
      },
    ],
  },
  {
    kind: "stat",
    title: "Overhead p99 (mean)",
    description:
      "Mean of the time range. Time that the gateway adds to a request: from the end of the request head until the request is forwarded, plus from the response head until it is written. Waiting for the upstream or for a free connection to it is excluded.",
    unit: "s",
    width: 4,
    limits: [0.005, 0.025],
    queries: [{ expr: quantile(0.99, "headgate_overhead_seconds", gateway), legend: "p99" }],
  },
  {
    kind: "stat",
    title: "Upstream",
    description:
      "State of the upstream at the last attempt; of several gateways, the worst. Without traffic this is the state of the last attempt, however long ago.",
    unit: "short",
    width: 4,
    words: { 0: ["up", health.well], 1: ["unknown", health.unknown], 2: ["down", health.failed] },
    queries: [
      {
        expr: `max(2 * headgate_upstream_state{${gateway}, state="down"} + ignoring (state) headgate_upstream_state{${gateway}, state="unknown"})`,
        legend: "state",
      },
    ],
  },
  {
    kind: "chart",
    title: "Responses by status",
    description: "Responses per second by status class. `none`: the client left before there was a status.",
    unit: "reqps",
    width: 8,
    stacked: true,
    queries: [
      {
        expr: `${sumRate("headgate_requests_total", requests, "status_class")} > 0`,
        legend: "{{status_class}}",
        color: statusClassColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Refused by reason",
    description: "Responses per second that the gateway made itself, by reason. docs/behaviour.md lists the reasons.",
    unit: "reqps",
    width: 8,
    stacked: true,
    noValue: "nothing refused",
    queries: [
      {
        expr: `${sumRate("headgate_refusals_total", gateway, "reason")} > 0`,
        legend: "{{reason}}",
        color: refusalColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Latency (p99)",
    description:
      "`total`: from the end of the request head to the end of the response, including slow clients and long downloads. `upstream`: from forwarding the request to the response head. `gateway`: the gateway's overhead.",
    unit: "s",
    width: 8,
    queries: [
      { expr: quantile(0.99, "headgate_request_duration_seconds", requests), legend: "total", color: lines.second },
      { expr: quantile(0.99, "headgate_upstream_duration_seconds", requests), legend: "upstream", color: lines.third },
      { expr: quantile(0.99, "headgate_overhead_seconds", gateway), legend: "gateway", color: lines.first },
    ],
  },
  {
    kind: "chart",
    title: "Event loop lag",
    description:
      "How late the thread that serves all requests runs its work, on the slowest of the chosen gateways. About 10 ms is the resolution of the measurement and means no delay. Above 100 ms every client waits.",
    unit: "s",
    width: 6,
    queries: [
      { expr: `max(${ofGateways(`nodejs_eventloop_lag_p50_seconds{${gateway}}`)})`, legend: "p50", color: lines.first },
      { expr: `max(${ofGateways(`nodejs_eventloop_lag_p99_seconds{${gateway}}`)})`, legend: "p99", color: lines.third },
    ],
  },
  {
    kind: "chart",
    title: "Memory",
    description:
      "The highest values among the chosen gateways: resident memory of the process, and the part used by the JavaScript heap.",
    unit: "bytes",
    width: 6,
    queries: [
      {
        expr: `max(${ofGateways(`process_resident_memory_bytes{${gateway}}`)})`,
        legend: "resident",
        color: lines.first,
      },
      { expr: `max(${ofGateways(`nodejs_heap_size_used_bytes{${gateway}}`)})`, legend: "heap", color: lines.second },
    ],
  },
  {
    kind: "chart",
    title: "Memory for counters",
    description:
      "Memory that the counters of all policies take (`used`), and what new keys can take before others are evicted (`free`). Summed over the chosen gateways.",
    unit: "bytes",
    width: 6,
    stacked: true,
    queries: [
      {
        expr: `sum by (state) (headgate_counters_memory_bytes{${gateway}})`,
        legend: "{{state}}",
        color: counterMemoryColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Upstream errors",
    description:
      "Requests per second that the upstream failed, by reason. Requests that another address served are not included.",
    unit: "cps",
    width: 6,
    stacked: true,
    noValue: "no errors",
    queries: [
      {
        expr: `${sumRate("headgate_upstream_errors_total", gateway, "reason")} > 0`,
        legend: "{{reason}}",
        color: upstreamErrorColors,
      },
    ],
  },
];
