// What is known about the upstream: the closed set of ways it can fail, and its health as the traffic shows it.

export type UpstreamErrorReason =
  | "refused" // nothing listens there
  | "unreachable" // no route, no such name
  | "connect_timeout"
  | "certificate" // the upstream's certificate is not one to trust
  | "tls" // no common version or cipher, no TLS at all, our certificate refused
  | "reset" // the connection broke before or inside the response
  | "closed_early" // closed before a response, or in the middle of one
  | "malformed" // not HTTP, or a response head that is not valid
  | "head_too_large"
  | "response_timeout" // no response head in time
  | "body_timeout" // the response's body stalled
  | "overloaded" // no connection was free within the bound
  | "other";

export interface UpstreamSettings {
  /** An absolute http or https URL; its path, if any, stands before what is forwarded. */
  readonly url: string;
  readonly tls: UpstreamTlsSettings;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly maxConnections: number;
}

/** Where the URL says that connections go: the host without brackets. */
export function upstreamEndpoint(url: string): {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
} {
  const { protocol, hostname, port } = new URL(url);
  const isTls = protocol === "https:";
  return { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: port === "" ? (isTls ? 443 : 80) : Number(port), isTls };
}

/** Paths are absolute. */
export interface UpstreamTlsSettings {
  /** The authorities to believe; null: the system's. */
  readonly ca: string | null;
  /** For the handshake and for the certificate; null: the host of the URL. */
  readonly serverName: string | null;
  /** With `key`: who the gateway is. */
  readonly cert: string | null;
  readonly key: string | null;
  readonly insecureSkipVerify: boolean;
}

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
