// How a tunnel ended, in a closed set of words, and how much it carried: all that is told of it, and nothing of what was
// in it.

export type TunnelEndReason =
  | "client_closed" // the client ended its direction first
  | "client_broken" // its connection broke
  | "upstream_closed"
  | "upstream_broken"
  | "idle" // no byte in either direction for too long
  | "drain"; // the gateway is going away

export interface TunnelEnd {
  /** The X-Request-Id of the request it began with. */
  readonly id: string;
  readonly reason: TunnelEndReason;
  readonly durationMs: number;
  /** Bytes the client sent, and bytes the upstream sent. */
  readonly clientBytes: number;
  readonly upstreamBytes: number;
}
