// What one sees without scrolling: what is happening, how much is refused and why, is the gateway itself well, is the
// upstream well. Numbers first, then the same four questions over time.
import { evictionColors, health, lines, refusalColors, statusClassColors, upstreamErrorColors } from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, quantile, requests, share, sumRate } from "./queries.ts";

export const firstScreen: readonly AnyPanelSpec[] = [
  {
    kind: "stat",
    title: "Requests",
    description:
      "Requests a second on the chosen routes, whatever the answer was, and what an ingress asked about on the decision listener.",
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
    title: "Throttled",
    description:
      "Share of the requests on limited routes that were over the quota (429). High for one greedy client; high for everybody when all of them share one address: see `clientAddress.trustedProxies`.",
    unit: "percentunit",
    width: 4,
    limits: [0.1, 0.5],
    queries: [
      {
        expr: share(
          sumRate("headgate_decisions_total", `${gateway}, outcome="throttled"`),
          sumRate("headgate_decisions_total", `${gateway}, outcome!="observed"`),
        ),
        legend: "throttled",
      },
    ],
  },
  {
    kind: "stat",
    title: "Refused for another reason",
    description:
      "Share of all requests that the gateway answered itself, 429 left out: no token, no route, malformed, upstream failed and so on. The chart below says which.",
    unit: "percentunit",
    width: 4,
    limits: [0.05, 0.25],
    queries: [
      {
        expr: share(
          sumRate("headgate_refusals_total", `${gateway}, reason!="throttled"`),
          sumRate("headgate_decisions_total", gateway),
        ),
        legend: "refused",
      },
    ],
  },
  {
    kind: "stat",
    title: "5xx",
    description: "Share of the requests on the chosen routes that ended in a 5xx, the upstream's or the gateway's own.",
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
    title: "Gateway's share (p99)",
    description:
      "What the gateway itself adds to a request, for 99 of 100: until the request is handed on, and from the head of the answer until it is written. Waiting for the upstream, or for a free connection to it, is not in it.",
    unit: "s",
    width: 4,
    limits: [0.005, 0.025],
    queries: [{ expr: quantile(0.99, "headgate_overhead_seconds", gateway), legend: "p99" }],
  },
  {
    kind: "stat",
    title: "Upstream",
    description:
      "The worst that any of the chosen gateways saw at its last attempt. It tells of the past when nobody asks for anything.",
    unit: "short",
    width: 4,
    words: { 0: ["up", health.well], 1: ["not asked yet", health.unknown], 2: ["down", health.failed] },
    queries: [
      {
        expr: `max(2 * headgate_upstream_state{${gateway}, state="down"} or headgate_upstream_state{${gateway}, state="unknown"})`,
        legend: "state",
      },
    ],
  },
  {
    kind: "chart",
    title: "Answers",
    description: "Requests a second by the class of their status; `none`: the client left before there was one.",
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
    title: "Refused, and why",
    description: "Answers a second that the gateway made itself, by reason. docs/metrics.md lists the reasons.",
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
    title: "Time (p99)",
    description:
      "Whole: from the end of the request's head to the end of the response, slow clients and long downloads included. Upstream: until the head of its answer. Gateway: its own share.",
    unit: "s",
    width: 8,
    queries: [
      { expr: quantile(0.99, "headgate_request_duration_seconds", requests), legend: "whole", color: lines.second },
      { expr: quantile(0.99, "headgate_upstream_duration_seconds", requests), legend: "upstream", color: lines.third },
      { expr: quantile(0.99, "headgate_overhead_seconds", gateway), legend: "gateway", color: lines.first },
    ],
  },
  {
    kind: "chart",
    title: "Event loop",
    description:
      "How late the gateway's one thread came to its work, worst of the chosen gateways. About 10 ms is the resolution of the measurement and means none; above 100 ms every client waits.",
    unit: "s",
    width: 5,
    queries: [
      { expr: `max(nodejs_eventloop_lag_p50_seconds{${gateway}})`, legend: "p50", color: lines.first },
      { expr: `max(nodejs_eventloop_lag_p99_seconds{${gateway}})`, legend: "p99", color: lines.third },
    ],
  },
  {
    kind: "chart",
    title: "Memory",
    description: "Of the largest of the chosen gateways: all that is resident, and the part that is JavaScript's heap.",
    unit: "bytes",
    width: 5,
    queries: [
      { expr: `max(process_resident_memory_bytes{${gateway}})`, legend: "resident", color: lines.first },
      { expr: `max(nodejs_heap_size_used_bytes{${gateway}})`, legend: "heap", color: lines.second },
    ],
  },
  {
    kind: "chart",
    title: "Client table",
    description:
      "Clients that the chosen gateways keep, and how many they can keep (`maxClients`), summed up. The rows below show each gateway.",
    unit: "short",
    width: 5,
    queries: [
      { expr: `sum(headgate_clients_tracked{${gateway}})`, legend: "clients", color: lines.first },
      { expr: `sum(headgate_clients_capacity{${gateway}})`, legend: "capacity", color: lines.second },
    ],
  },
  {
    kind: "chart",
    title: "Live clients evicted",
    description:
      "Clients evicted per second although their requests still counted, because the table was full. This should be zero; otherwise raise `maxClients`.",
    unit: "cps",
    width: 4,
    queries: [
      {
        expr: sumRate("headgate_evictions_total", `${gateway}, reason="live"`),
        legend: "live clients evicted",
        color: evictionColors.live,
      },
    ],
  },
  {
    kind: "chart",
    title: "Failed attempts at the upstream",
    description: "Attempts a second to get an answer from the upstream that failed, by reason.",
    unit: "cps",
    width: 5,
    stacked: true,
    noValue: "none failed",
    queries: [
      {
        expr: `${sumRate("headgate_upstream_errors_total", gateway, "reason")} > 0`,
        legend: "{{reason}}",
        color: upstreamErrorColors,
      },
    ],
  },
];
