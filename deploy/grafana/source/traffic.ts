// Details of what arrives: by route and method, how long it takes, and the connections it comes on.
import {
  checkColors,
  connectionShedColors,
  lines,
  methodColors,
  proxyHeaderColors,
  tlsFailureColors,
  tunnelColors,
} from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, quantile, quantiles, requests, sumRate } from "./queries.ts";

export const traffic: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "Requests by route",
    description: "Requests a second; `none` is what lies under no route.",
    unit: "reqps",
    width: 8,
    queries: [{ expr: sumRate("headgate_requests_total", requests, "route"), legend: "{{route}}" }],
  },
  {
    kind: "chart",
    title: "Requests by method",
    description: "Requests a second; methods that are rare in HTTP APIs are `other`.",
    unit: "reqps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_requests_total", requests, "method"), legend: "{{method}}", color: methodColors },
    ],
  },
  {
    kind: "chart",
    title: "How far requests get",
    description:
      "Requests a second that arrived to be forwarded, that were within the quota (those an ingress asked about as well), and that the upstream answered. The distance from the first to the last is what the upstream is spared.",
    unit: "reqps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_requests_total", gateway), legend: "arrived", color: lines.first },
      {
        expr: sumRate("headgate_decisions_total", `${gateway}, outcome="admitted"`),
        legend: "within the quota",
        color: lines.second,
      },
      {
        expr: sumRate("headgate_upstream_duration_seconds_count", gateway),
        legend: "answered by the upstream",
        color: lines.third,
      },
    ],
  },
  {
    kind: "chart",
    title: "Whole time",
    description: "From the end of a request's head to the end of its response, on the chosen routes together.",
    unit: "s",
    width: 8,
    queries: quantiles("headgate_request_duration_seconds", requests),
  },
  {
    kind: "chart",
    title: "Whole time by route (p99)",
    description: "The same for 99 of 100 requests, one line for each route.",
    unit: "s",
    width: 8,
    queries: [{ expr: quantile(0.99, "headgate_request_duration_seconds", requests, "route"), legend: "{{route}}" }],
  },
  {
    kind: "chart",
    title: "Connections of clients",
    description: "Open connections, and those that left HTTP by an Upgrade (tunnels), such as WebSocket.",
    unit: "short",
    width: 8,
    queries: [
      { expr: `sum(headgate_client_connections{${gateway}})`, legend: "connections", color: lines.first },
      { expr: `sum by (state) (headgate_tunnels{${gateway}})`, legend: "tunnels {{state}}", color: tunnelColors },
    ],
  },
  {
    kind: "chart",
    title: "Connections closed for a bound",
    description:
      "A second. `idle` made room for a newer one and is harmless; `total` and `per_peer` were refused with 503 by `listen.maxConnections` and `maxConnectionsPerPeer`.",
    unit: "cps",
    width: 8,
    queries: [
      {
        expr: sumRate("headgate_connections_shed_total", gateway, "reason"),
        legend: "{{reason}}",
        color: connectionShedColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "TLS handshakes that failed",
    description: "A second, by reason; all zero without `listen.tls`.",
    unit: "cps",
    width: 8,
    queries: [
      {
        expr: sumRate("headgate_tls_handshake_failures_total", gateway, "reason"),
        legend: "{{reason}}",
        color: tlsFailureColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "PROXY headers refused",
    description:
      "Connections a second closed because they did not begin with a PROXY header; all zero without `listen.proxyProtocol`.",
    unit: "cps",
    width: 8,
    queries: [
      {
        expr: sumRate("headgate_proxy_headers_refused_total", gateway, "reason"),
        legend: "{{reason}}",
        color: proxyHeaderColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Asked by an ingress",
    description:
      "Calls a second to the decision listener. `untrusted`: the caller may not ask, see `decision` in the configuration; `malformed`: it does not say about what; all zero without that listener.",
    unit: "reqps",
    width: 12,
    queries: [
      {
        expr: sumRate("headgate_ext_auth_checks_total", gateway, "outcome"),
        legend: "{{outcome}}",
        color: checkColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Certificate runs out in",
    description: "Time left for the certificate in use, the shortest of the chosen gateways.",
    unit: "s",
    width: 12,
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
