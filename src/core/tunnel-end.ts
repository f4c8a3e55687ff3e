// How a tunnel ended and how many bytes it carried, for the metrics and the log.

export type TunnelEndReason =
  | "client_closed" // the client ended its direction first
  | "client_broken" // the client's connection broke
  | "upstream_closed"
  | "upstream_broken"
  | "idle" // the idle timeout expired
  | "over_share" // its client had the most tunnels, and a client without one needed it
  | "drain"; // the gateway is stopping

export interface TunnelEnd {
  /** The X-Request-Id of the Upgrade request. */
  readonly id: string;
  readonly reason: TunnelEndReason;
  readonly durationMs: number;
  /** Bytes that the client sent. */
  readonly clientBytes: number;
  readonly upstreamBytes: number;
}
