// What is known about the upstream: the closed set of ways it can fail, and its health as the traffic shows it.

export type UpstreamErrorReason =
  | "refused" // nothing listens there
  | "unreachable" // no route, no such name
  | "connect_timeout"
  | "reset" // the connection broke before or inside the response
  | "closed_early" // closed before a response, or in the middle of one
  | "malformed" // not HTTP, or a response head that is not valid
  | "head_too_large"
  | "response_timeout" // no response head in time
  | "body_timeout" // the response's body stalled
  | "overloaded" // no connection was free within the bound
  | "other";

export interface UpstreamHealth {
  /** `unknown` until something was tried; afterwards what the last attempt showed. */
  readonly state: "unknown" | "up" | "down";
  /** Why it is down. */
  readonly reason: UpstreamErrorReason | null;
}

export interface TunnelFigures {
  /** Upgrades the upstream has not answered, or has answered otherwise and not to the end. */
  readonly opening: number;
  readonly open: number;
}

export interface UpstreamConnections {
  /** Carrying a request. */
  readonly active: number;
  /** Open and waiting. */
  readonly idle: number;
  /** Requests waiting for a connection. */
  readonly waiting: number;
}
