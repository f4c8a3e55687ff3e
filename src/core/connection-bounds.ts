// The bounds on connections of clients, and why a connection was closed because of one.

export interface ConnectionBounds {
  /** Open at once, from the moment they are accepted. */
  readonly maxConnections: number;
  /** Of one peer; IPv6 peers are grouped as clients are. Trusted proxies are exempt. */
  readonly maxConnectionsPerPeer: number;
  /** Of one peer in a second, and `maxConnectionsPerPeer` more at once. Trusted proxies are exempt. */
  readonly newConnectionsPerPeer: number;
  /** Requests on one connection; the answer to the last says that it closes. */
  readonly maxRequestsPerConnection: number;
}

/**
 * `idle`: a connection without a request was closed for a new one. `total`, `per_peer`: a new one was refused unread.
 * `rate`: a new one was closed unread, because its peer opened too many in a short time.
 * `admin`: a connection to the admin listener was closed for a new one.
 */
export const connectionShedReasons = ["total", "per_peer", "rate", "idle", "admin"] as const;

export type ConnectionShedReason = (typeof connectionShedReasons)[number];
