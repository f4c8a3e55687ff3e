// Details of the upstream: latency, errors, connections and addresses.
import {
  addressColors,
  connectionColors,
  failedLookups,
  shareColors,
  upstreamErrorColors,
  upstreamStateColors,
} from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, quantile, quantiles, requests, sumRate } from "./queries.ts";

export const upstream: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "Upstream latency",
    description:
      "From forwarding the request to the response head. Requests that the upstream did not answer are excluded.",
    unit: "s",
    width: 8,
    queries: quantiles("headgate_upstream_duration_seconds", requests),
  },
  {
    kind: "chart",
    title: "Upstream latency by route (p99)",
    description: "The 99th percentile of the same time, for each route.",
    unit: "s",
    width: 8,
    queries: [{ expr: quantile(0.99, "headgate_upstream_duration_seconds", requests, "route"), legend: "{{route}}" }],
  },
  {
    kind: "chart",
    title: "Upstream errors by reason",
    description:
      "Requests per second that the upstream failed. `overloaded` is the exception: the gateway itself had no free connection or file.",
    unit: "cps",
    width: 8,
    queries: [
      {
        expr: sumRate("headgate_upstream_errors_total", gateway, "reason"),
        legend: "{{reason}}",
        color: upstreamErrorColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Upstream connections",
    description:
      "`active` and `idle` connections, and requests that are `waiting` for one because all of `upstream.maxConnections` are in use.",
    unit: "short",
    width: 8,
    queries: [
      {
        expr: `sum by (state) (headgate_upstream_connections{${gateway}})`,
        legend: "{{state}}",
        color: connectionColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Upstream addresses",
    description:
      "Summed over the chosen gateways. `ejected`: not used, because connections to the address or its health check failed.",
    unit: "short",
    width: 8,
    queries: [
      { expr: `sum by (state) (headgate_upstream_addresses{${gateway}})`, legend: "{{state}}", color: addressColors },
    ],
  },
  {
    kind: "chart",
    title: "Ejections and failed lookups",
    description:
      "Per second: addresses ejected, once more after each failed probe, and failed lookups of the upstream's names.",
    unit: "cps",
    width: 8,
    queries: [
      {
        expr: sumRate("headgate_upstream_ejections_total", gateway),
        legend: "ejections",
        color: addressColors.ejected,
      },
      {
        expr: sumRate("headgate_upstream_lookups_failed_total", gateway),
        legend: "failed lookups",
        color: failedLookups,
      },
    ],
  },
  {
    kind: "chart",
    title: "Failovers",
    description:
      "Requests per second that went to another address because the first could not be connected to, by reason. Clients do not notice. The log names the address.",
    unit: "reqps",
    width: 8,
    noValue: "none",
    queries: [
      {
        expr: `${sumRate("headgate_upstream_failovers_total", gateway, "reason")} > 0`,
        legend: "{{reason}}",
        color: upstreamErrorColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Gateways by upstream state",
    description: "How many of the chosen gateways found the upstream up or down at their last attempt.",
    unit: "short",
    width: 8,
    stacked: true,
    queries: [
      { expr: `sum by (state) (headgate_upstream_state{${gateway}})`, legend: "{{state}}", color: upstreamStateColors },
    ],
  },
  {
    kind: "chart",
    title: "Clients over their share",
    description:
      "Requests and tunnels per second that were refused or ended because their client had used up its share. `connections`: requests that waited for a connection to the upstream, and slow ones that held one. `queue`: requests that lost their place in the queue for a connection. `tunnels`: tunnels that were closed, or not opened. `client_connections`: requests on a connection of a client that has too many connections with a request.",
    unit: "cps",
    width: 8,
    queries: [
      {
        expr: sumRate("headgate_client_share_exceeded_total", gateway, "resource"),
        legend: "{{resource}}",
        color: shareColors,
      },
    ],
  },
];
