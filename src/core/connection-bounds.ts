// How many connections clients may have open, and why one was closed before its time. Pure words: `server` keeps the
// bounds, `telemetry` counts what they cost.

export interface ConnectionBounds {
  /** Open at once, from the moment they are accepted. */
  readonly maxConnections: number;
  /** Of one peer; IPv6 peers are grouped as clients are. Trusted proxies are exempt. */
  readonly maxConnectionsPerPeer: number;
  /** Requests on one connection; the answer to the last says that it closes. */
  readonly maxRequestsPerConnection: number;
}

/** `idle`: it was open without a request, and made room for a new one. The others never got to be read. */
export const connectionShedReasons = ["total", "per_peer", "idle"] as const;

export type ConnectionShedReason = (typeof connectionShedReasons)[number];
