// The upstream's settings, addresses, error reasons, events and figures, as other folders know them.

import type { BrokenRule } from "./broken-rule.ts";
import type { HostPort } from "./ip-address.ts";

export const upstreamErrorReasons = [
  "refused", // nothing listens there
  "unreachable", // no route, or no address for the name
  "connect_timeout",
  "certificate", // the upstream's certificate is not trusted
  "tls", // no common version or cipher, no TLS at all, or our certificate was refused
  "reset", // the connection was reset before or during the response
  "closed_early", // the connection was closed before or during the response
  "malformed", // not HTTP, or an invalid response head
  "head_too_large",
  "response_timeout", // no response head in time
  "body_timeout", // the response's body stalled
  "overloaded", // no connection became free in time
  "other",
] as const;

export type UpstreamErrorReason = (typeof upstreamErrorReasons)[number];

/** How long the upstream is waited for. */
export interface ResponseTimeouts {
  /** For the head of the response, and until then for each piece of the request to be read. */
  readonly responseTimeoutMs: number;
  /** For the next piece of the response's body. */
  readonly bodyTimeoutMs: number;
}

export interface UpstreamHostSettings extends ResponseTimeouts {
  /** An absolute http or https URL; its path is put before the path of each request. */
  readonly url: string;
  /** `client`, `url`, or `name:` and a host with or without a port. */
  readonly hostHeader: string;
  readonly tls: UpstreamTlsSettings;
  readonly connectTimeoutMs: number;
  /** The most that a connection is idle; 0: none is used again. `auto`: the upstream says it, or it is the default. */
  readonly keepAliveMs: KeepAliveMs;
  readonly maxConnections: number;
  /** Of a response. */
  readonly maxHeaderBytes: number;
}

export interface UpstreamSettings extends UpstreamHostSettings {
  /** Addresses to connect to instead of the URL's host, as in the configuration; see splitAddress. */
  readonly addresses: readonly string[];
  readonly healthCheck: HealthCheckSettings;
}

export type KeepAliveMs = number | "auto";

/** `host` is the URL's, which is the upstream's name in Host and TLS, whatever the targets are. */
export function upstreamTargets(url: string, addresses: readonly string[]) {
  const { protocol, hostname, port: written } = new URL(url);
  const isTls = protocol === "https:";
  const host = withoutBrackets(hostname);
  const port = written === "" ? (isTls ? 443 : 80) : Number(written);
  const targets = addresses.map((address): HostPort => {
    const { host, port: own } = splitAddress(address);
    return { host, port: own ?? port };
  });
  return { host, isTls, targets: targets.length > 0 ? targets : [{ host, port }] };
}

export type UpstreamHost = ReturnType<typeof upstreamHostOf>;

/** Returns the Host of requests that do not keep their client's. The URL's is without its final dot, as SNI is. */
export function upstreamHostOf(url: string, hostHeader: string) {
  const isNamed = hostHeader.startsWith("name:");
  const upstreamHost = isNamed ? hostHeader.slice(5) : new URL(url).host.replace(/\.(?=:|$)/, "");
  return { upstreamHost, keepsClientHost: hostHeader === "client" };
}

/** Splits `host` or `host:port`, with an IPv6 address in brackets. The port is null if there is none. */
export function splitAddress(text: string): { readonly host: string; readonly port: number | null } {
  const [, host = text, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(text) ?? [];
  return { host: withoutBrackets(host), port: port === undefined ? null : Number(port) };
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}

interface HealthCheckSettings {
  /** In origin form; null: no health check. */
  readonly path: string | null;
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** Paths are absolute. */
export interface OutboundTlsPaths {
  /** Certificate authorities to trust; null: Node's own list. */
  readonly ca: string | null;
  /** The gateway's own certificate; requires `key`. */
  readonly cert: string | null;
  readonly key: string | null;
}

export interface UpstreamTlsSettings extends OutboundTlsPaths {
  /** Sent in the handshake and expected in the certificate; null: the host of the URL. */
  readonly serverName: string | null;
  readonly insecureSkipVerify: boolean;
}

export interface UpstreamHealth {
  /** `unknown` before the first attempt, then the result of the last attempt. */
  readonly state: "unknown" | "up" | "down";
  readonly reason: UpstreamErrorReason | null;
}

/** Why a request failed at the upstream. The broken rule is that of a malformed response. */
export interface UpstreamFault extends Partial<BrokenRule> {
  readonly reason: UpstreamErrorReason;
  /** A code of the system or the gateway, such as ECONNREFUSED. */
  readonly code: string | null;
  /** The upstream's address, as in a URL; null if none was reached. For operators only. */
  readonly address: string | null;
  /** The gateway's own id of the request. */
  readonly id: string;
  /** Its connection had carried a request before, and was then idle for `idleMs`. */
  readonly reused?: true;
  readonly idleMs?: number;
}

export interface EndpointEvents {
  /** A request goes to another address because this one failed to connect; `isNews`: for the first time since it answered. */
  readonly onFailover: (address: string, reason: UpstreamErrorReason, code: string, isNews: boolean) => void;
  readonly onEjected: (address: string, reason: UpstreamErrorReason, backoffMs: number) => void;
  readonly onRestored: (address: string) => void;
  /** Called by the health check; `fault` is a status or an error code. */
  readonly onUnhealthy: (address: string, fault: string) => void;
  readonly onHealthy: (address: string) => void;
}

export interface LookupEvents {
  /** Called for the first failure after the start or a success; `isKnown`: the last known addresses stay in use. */
  readonly onLookupFailed: (name: string, error: Error, isKnown: boolean) => void;
  readonly onLookupRecovered: (name: string) => void;
}

export interface UpstreamEvents extends EndpointEvents, LookupEvents {}

export interface TunnelFigures {
  /** Upgrade requests without a complete response; a 101 makes them open. */
  readonly opening: number;
  readonly open: number;
}

export interface AddressFigures {
  readonly available: number;
  readonly ejected: number;
  /** Since the start. */
  readonly ejections: number;
  /** Requests that went to another address because the first failed to connect, by reason. */
  readonly failovers: ReadonlyMap<UpstreamErrorReason, number>;
  readonly failedLookups: number;
  /** Whether the last lookup of every name succeeded. */
  readonly areCurrent: boolean;
}

/** One address of the upstream, as one thread sees it. */
export interface AddressState {
  /** As in a URL. */
  readonly address: string;
  /** Why it is ejected: how a connection failed, or what a health check found. Null: it is not. */
  readonly ejectedFor: string | null;
  /** Requests on it, including those for which a connection is being opened. */
  readonly active: number;
}

export interface ConnectionFigures {
  /** Carrying a request. */
  readonly active: number;
  /** Open, without a request. */
  readonly idle: number;
  /** Requests waiting for a connection. */
  readonly waiting: number;
}
