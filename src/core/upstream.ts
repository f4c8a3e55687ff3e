// What other parts know of the upstream: its settings, its addresses, the closed set of ways in which it can fail, its
// events and its figures.

export const upstreamErrorReasons = [
  "refused", // nothing listens there
  "unreachable", // no route, no such name
  "connect_timeout",
  "certificate", // the upstream's certificate is not trusted
  "tls", // no common version or cipher, no TLS at all, our certificate refused
  "reset", // the connection broke before or inside the response
  "closed_early", // the connection was closed before a response, or in the middle of one
  "malformed", // not HTTP, or a response head that is not valid
  "head_too_large",
  "response_timeout", // no response head in time
  "body_timeout", // the response's body stalled
  "overloaded", // no connection was free within the bound
  "other",
] as const;

export type UpstreamErrorReason = (typeof upstreamErrorReasons)[number];

export interface UpstreamSettings {
  /** An absolute http or https URL; its path, if any, is put before the path of each request. */
  readonly url: string;
  /** Where to connect instead of the URL's host, as configured; see splitAddress. */
  readonly addresses: readonly string[];
  readonly tls: UpstreamTlsSettings;
  readonly healthCheck: HealthCheckSettings;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly maxConnections: number;
}

/** A name or an address (without brackets), and a port to connect to. */
export interface UpstreamTarget {
  readonly host: string;
  readonly port: number;
}

/** `host` is the URL's: the upstream's name in Host and TLS, wherever the connections go. */
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
  /** In origin form; null: no health check. */
  readonly path: string | null;
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** Paths are absolute. */
export interface UpstreamTlsSettings {
  /** The certificate authorities to trust; null: the system's. */
  readonly ca: string | null;
  /** Sent in the handshake and expected in the certificate; null: the host of the URL. */
  readonly serverName: string | null;
  /** With `key`: the gateway's own certificate. */
  readonly cert: string | null;
  readonly key: string | null;
  readonly insecureSkipVerify: boolean;
}

export interface UpstreamHealth {
  /** `unknown` before the first attempt, then what the last attempt showed. */
  readonly state: "unknown" | "up" | "down";
  /** Why it is down. */
  readonly reason: UpstreamErrorReason | null;
}

/** A request that the upstream failed. */
export interface UpstreamFault {
  readonly reason: UpstreamErrorReason;
  /** The system's or the gateway's own, such as ECONNREFUSED. */
  readonly code: string | null;
  /** Of the upstream, as in a URL; null if no address was reached. For the log only. */
  readonly address: string | null;
  /** The request's. */
  readonly id: string;
}

export interface EndpointEvents {
  /** A request that could not be connected is given to another address; `isNews`: the first since it last answered. */
  readonly onFailover: (address: string, reason: UpstreamErrorReason, code: string, isNews: boolean) => void;
  readonly onEjected: (address: string, reason: UpstreamErrorReason, backoffMs: number) => void;
  readonly onRestored: (address: string) => void;
  /** By the health check; `fault` is a status or an error code. */
  readonly onUnhealthy: (address: string, fault: string) => void;
  readonly onHealthy: (address: string) => void;
}

export interface UpstreamEvents extends EndpointEvents {
  /** Called for the first failure after a success or the start; `isKnown`: addresses from before stay in use. */
  readonly onLookupFailed: (name: string, error: Error, isKnown: boolean) => void;
  readonly onLookupRecovered: (name: string) => void;
}

export interface TunnelFigures {
  /** Upgrades whose response is not complete; a 101 makes them open. */
  readonly opening: number;
  readonly open: number;
}

export interface AddressFigures {
  readonly available: number;
  readonly ejected: number;
  /** Since the start. */
  readonly ejections: number;
  /** Requests that were given to another address because the first could not be connected to, by reason. */
  readonly failovers: ReadonlyMap<UpstreamErrorReason, number>;
  readonly failedLookups: number;
  /** The last lookup of every name succeeded. */
  readonly areCurrent: boolean;
}

export interface ConnectionFigures {
  /** Carrying a request. */
  readonly active: number;
  /** Open, without a request. */
  readonly idle: number;
  /** Requests waiting for a connection. */
  readonly waiting: number;
}
