// Details of the upstream: how fast it answers, how it fails, and whether connections and addresses suffice.
import { addressColors, connectionColors, failedLookups, upstreamErrorColors, upstreamStateColors } from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, quantile, quantiles, requests, sumRate } from "./queries.ts";

export const upstream: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "Time until the upstream answers",
    description: "From handing it the request to the head of its response. Requests that failed are not in it.",
    unit: "s",
    width: 8,
    queries: quantiles("headgate_upstream_duration_seconds", requests),
  },
  {
    kind: "chart",
    title: "Time until the upstream answers by route (p99)",
    description: "The same for 99 of 100 requests, one line for each route.",
    unit: "s",
    width: 8,
    queries: [{ expr: quantile(0.99, "headgate_upstream_duration_seconds", requests, "route"), legend: "{{route}}" }],
  },
  {
    kind: "chart",
    title: "Failed attempts by reason",
    description:
      "Requests a second that got no answer. `overloaded` is the gateway's own want of connections or files; all others are the upstream's.",
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
    title: "Connections to the upstream",
    description:
      "Active and idle ones, and requests that wait for one: those wait because `upstream.maxConnections` are busy.",
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
    title: "Addresses of the upstream",
    description:
      "As the chosen gateways see them, added up. `ejected`: connections to it failed, or the health check did.",
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
      "A second: addresses left out, failed probes included, and lookups of the upstream's names that failed.",
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
    title: "Served by another address",
    description:
      "Requests a second for which another address was tried, since the first could not be connected to, by reason. No client notices; the log names the address.",
    unit: "reqps",
    width: 12,
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
    title: "Gateways by what they see",
    description: "How many of the chosen gateways found the upstream up or down at their last attempt.",
    unit: "short",
    width: 12,
    stacked: true,
    queries: [
      { expr: `sum by (state) (headgate_upstream_state{${gateway}})`, legend: "{{state}}", color: upstreamStateColors },
    ],
  },
];
