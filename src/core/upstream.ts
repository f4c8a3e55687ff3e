// The upstream in words that all parts share: how it is configured, where it is, the closed set of ways it can fail, and
// the figures that are told of it.

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
  /** Where to connect in place of the URL's host, as it was written; see splitAddress. */
  readonly addresses: readonly string[];
  readonly tls: UpstreamTlsSettings;
  readonly healthCheck: HealthCheckSettings;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly maxConnections: number;
}

/** Where connections go: a name or an address (without brackets), and a port. */
export interface UpstreamTarget {
  readonly host: string;
  readonly port: number;
}

/** `host` is the URL's, which the upstream is known by, wherever it is. */
export function upstreamTargets({ url, addresses }: Pick<UpstreamSettings, "url" | "addresses">): {
  readonly host: string;
  readonly isTls: boolean;
  readonly targets: readonly UpstreamTarget[];
} {
  const { protocol, hostname, port: written } = new URL(url);
  const isTls = protocol === "https:";
  const host = withoutBrackets(hostname);
  const port = written === "" ? (isTls ? 443 : 80) : Number(written);
  const targets = addresses.map((address) => {
    const { host, port: own } = splitAddress(address);
    return { host, port: own ?? port };
  });
  return { host, isTls, targets: targets.length > 0 ? targets : [{ host, port }] };
}

/** `host`, `host:port`, and the same with `[::1]`. The port is null if there is none. */
export function splitAddress(text: string): { readonly host: string; readonly port: number | null } {
  const [, host = text, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(text) ?? [];
  return { host: withoutBrackets(host), port: port === undefined ? null : Number(port) };
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}

export interface HealthCheckSettings {
  /** In origin form; null: there is no check. */
  readonly path: string | null;
  readonly intervalMs: number;
  readonly timeoutMs: number;
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

/** A request that the upstream failed. */
export interface UpstreamFault {
  readonly reason: UpstreamErrorReason;
  /** The system's or the gateway's own, such as ECONNREFUSED. */
  readonly code: string | null;
  /** Of the upstream, as in an URL; null if the request came to none. For the log only. */
  readonly address: string | null;
  /** The request's. */
  readonly id: string;
}

export interface TunnelFigures {
  /** Upgrades the upstream has not answered, or has answered otherwise and not to the end. */
  readonly opening: number;
  readonly open: number;
}

export interface AddressFigures {
  readonly available: number;
  readonly ejected: number;
  /** So far. */
  readonly ejections: number;
  /** Requests that another address was tried for, since the first could not be connected to; by its reason. */
  readonly failovers: ReadonlyMap<UpstreamErrorReason, number>;
  readonly failedLookups: number;
  /** Every name could be looked up last time. */
  readonly areCurrent: boolean;
}

export interface ConnectionFigures {
  /** Carrying a request. */
  readonly active: number;
  /** Open and waiting. */
  readonly idle: number;
  /** Requests waiting for a connection. */
  readonly waiting: number;
}
