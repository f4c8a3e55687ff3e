// Details of the traffic: requests by route and method, latency, client connections, and checks asked by an ingress.
import {
  checkColors,
  connectionShedColors,
  http2CloseColors,
  http2ResetColors,
  lines,
  methodColors,
  proxyHeaderColors,
  tlsFailureColors,
  tunnelColors,
} from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { decided, gateway, quantile, quantiles, requests, sumRate } from "./queries.ts";

export const traffic: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "Requests by route",
    description: "Requests per second. `none`: under no configured route.",
    unit: "reqps",
    width: 8,
    queries: [{ expr: sumRate("headgate_requests_total", requests, "route"), legend: "{{route}}" }],
  },
  {
    kind: "chart",
    title: "Requests by method",
    description: "Requests per second. `other`: every method without a line of its own.",
    unit: "reqps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_requests_total", requests, "method"), legend: "{{method}}", color: methodColors },
    ],
  },
  {
    kind: "chart",
    title: "Requests by stage",
    description:
      "Requests per second that arrived, that no limit refused, and that the upstream answered. The second includes the checks of an ingress, which the other two do not.",
    unit: "reqps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_requests_total", gateway), legend: "arrived", color: lines.first },
      {
        expr: `${decided} - ${sumRate("headgate_refusals_total", `${gateway}, reason="throttled"`)}`,
        legend: "within quota",
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
    title: "Latency",
    description: "From the end of the request head to the end of the response, over all chosen routes.",
    unit: "s",
    width: 8,
    queries: quantiles("headgate_request_duration_seconds", requests),
  },
  {
    kind: "chart",
    title: "Latency by route (p99)",
    description: "The 99th percentile of the same time, for each route.",
    unit: "s",
    width: 8,
    queries: [{ expr: quantile(0.99, "headgate_request_duration_seconds", requests, "route"), legend: "{{route}}" }],
  },
  {
    kind: "chart",
    title: "Client connections",
    description:
      "Open connections, and those that an Upgrade turned into a tunnel, such as a WebSocket. `opening`: the upstream has not answered the Upgrade yet.",
    unit: "short",
    width: 8,
    queries: [
      { expr: `sum(headgate_client_connections{${gateway}})`, legend: "connections", color: lines.first },
      { expr: `sum by (state) (headgate_tunnels{${gateway}})`, legend: "tunnels {{state}}", color: tunnelColors },
    ],
  },
  {
    kind: "chart",
    title: "Client connections shed",
    description:
      "Connections closed per second. `idle`: closed to make room for a new connection, which is harmless. `admin`: the same on the admin listener. `total` and `per_peer`: refused because `listen.maxConnections` or `listen.maxConnectionsPerPeer` was reached. `rate`: closed because one peer opened more than `listen.newConnectionsPerPeer` per second. `stream per_peer` and `stream total`: an HTTP/2 stream was refused because of the same keys. `stream unread`: a stream was reset because the client did not read the response. Other reasons: an HTTP/2 connection was closed because the client cost too much.",
    unit: "cps",
    width: 8,
    noValue: "none shed",
    queries: [
      {
        expr: `${sumRate("headgate_connections_shed_total", gateway, "reason")} > 0`,
        legend: "{{reason}}",
        color: connectionShedColors,
      },
      {
        expr: `${sumRate("headgate_http2_connections_closed_total", gateway, "reason")} > 0`,
        legend: "{{reason}}",
        color: http2CloseColors,
      },
      {
        expr: `${sumRate("headgate_http2_streams_reset_total", gateway, "reason")} > 0`,
        legend: "stream {{reason}}",
        color: http2ResetColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Failed TLS handshakes and PROXY headers",
    description:
      "TLS handshakes that failed, per second and by reason, and connections that were closed because they did not start with a PROXY header (`listen.proxyProtocol`).",
    unit: "cps",
    width: 8,
    noValue: "none failed",
    queries: [
      {
        expr: `${sumRate("headgate_tls_handshake_failures_total", gateway, "reason")} > 0`,
        legend: "{{reason}}",
        color: tlsFailureColors,
      },
      {
        expr: `${sumRate("headgate_proxy_headers_refused_total", gateway, "reason")} > 0`,
        legend: "PROXY {{reason}}",
        color: proxyHeaderColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "Ingress checks",
    description:
      "Checks per second that an ingress asked for. `internal`: a bug in the gateway. `untrusted`: the caller is not allowed to ask, see `extAuth.trustedCallers`. `malformed`: the call cannot be read or does not describe a request. `overloaded`: the caller has too many connections. Zero while `extAuth` is disabled.",
    unit: "reqps",
    width: 8,
    noValue: "no checks",
    queries: [
      {
        expr: `${sumRate("headgate_ext_auth_checks_total", gateway, "outcome")} > 0`,
        legend: "{{outcome}}",
        color: checkColors,
      },
    ],
  },
];
