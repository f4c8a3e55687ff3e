// The configuration as the gateway uses it: parsed, with units in the names. Only `config/` knows how it was written.
// And what connections, requests and one of several threads take of it.
import type { AuthDemands } from "./authentication.ts";
import type { ClientAddressRules, ForwardingHeader } from "./client-address.ts";
import type { Watched } from "./file-group.ts";
import type { HeadBounds } from "./http-bounds.ts";
import type { HostPort } from "./ip-address.ts";
import type { ErrorFormat } from "./local-reply.ts";
import type { Policy } from "./policy.ts";
import type { TrialTerms } from "./reload.ts";
import type { FieldKind, ResetFormat } from "./response-fields.ts";
import type { SharedStoreSettings, StoreConnectionSettings } from "./store-link.ts";
import type { TokenRate } from "./token-bucket.ts";
import type { UpstreamSettings } from "./upstream.ts";

/** What decides about a request and shapes its response. The plugin has it too. */
export interface RequestSettings {
  /** Path prefixes below the base path; each begins and ends with a slash. */
  readonly routes: readonly string[];
  readonly clientAddress: {
    readonly trustedProxies: readonly string[];
    readonly header: ForwardingHeader;
    readonly ipv6Prefix: number;
    /** In lower case: further fields that are dropped of an untrusted peer. */
    readonly dropHeaders: readonly string[];
  };
  /** At least one; the names are different. */
  readonly policies: readonly Policy[];
  /** `shadow`: each policy is a shadow, whatever its mode. */
  readonly enforcement: "on" | "shadow";
  readonly refusals: TokenRate;
  readonly auth: AuthDemands & {
    readonly realm: string;
    /** An absolute path. */
    readonly tokensFile: string | null;
  };
  /** Origins as browsers send them. */
  readonly cors: { readonly origins: readonly string[]; readonly preflights: "forward" | "answer" };
  readonly errors: { readonly format: ErrorFormat };
  /** Whose X-Request-Id goes upstream and back. */
  readonly requestId: { readonly keep: "any" | "trusted" };
  readonly fields: readonly FieldKind[];
  readonly resetFormat: ResetFormat;
  readonly maxBodyBytes: number;
  /** At most `maxHeaderBytes`. */
  readonly maxTargetBytes: number;
}

export interface BodyTimeouts {
  readonly bodyMs: number;
  /** Bytes per second. */
  readonly bodyRate: number;
  readonly lingerMs: number;
}

export interface AccessLogSettings {
  readonly access: boolean;
  readonly subject: LoggedSubject;
}

export interface Settings extends RequestSettings {
  readonly listen: HostPort &
    ConnectionBounds & {
      readonly proxyProtocol: boolean;
      readonly proxyScheme: Scheme;
      /** Null: plain. */
      readonly tls: ListenerTls | null;
    };
  readonly admin: AdminSettings;
  /** The prefix of all routes for clients. No slash at the end, except "/" itself. */
  readonly basePath: string;
  readonly upstream: UpstreamSettings;
  readonly upgrade: {
    /** In lower case: the protocols whose Upgrade is forwarded. */
    readonly protocols: readonly string[];
    readonly maxTunnels: number;
    readonly idleTimeoutMs: number;
  };
  readonly unmatched: "reject" | "proxy";
  readonly counters: {
    /** Of the table of all policies. */
    readonly memoryBytes: number;
    /** Null: a restart begins with empty counters. `path`: an absolute one. */
    readonly snapshot: { readonly path: string; readonly everyMs: number } | null;
    /** A store that several gateways share; null: each counts for itself. */
    readonly redis: { readonly connection: StoreConnectionSettings; readonly store: SharedStoreSettings } | null;
  };
  /** Threads that carry traffic, from 1. */
  readonly workers: number;
  readonly extAuth: ExtAuthSettings;
  /** Where a caller is told what it has left; below the base path. Null: nowhere. */
  readonly quota: { readonly path: string | null };
  /** Where a load balancer is told whether the gateway is ready; null: nowhere. */
  readonly readiness: { readonly path: string | null };
  /** Of a request. */
  readonly maxHeaderBytes: number;
  readonly timeouts: BodyTimeouts & { readonly headMs: number; readonly keepAliveMs: number };
  readonly reload: {
    /** Whether a change of the configuration file reloads it. */
    readonly watch: boolean;
    /** Of what a signal or a change of the file reloads. */
    readonly trial: {
      /** Null: it is not on trial. */
      readonly confirmWithinMs: number | null;
      /** A share of 1; null: it is not judged. */
      readonly unlessRefused: number | null;
      readonly unconfirmed: TrialTerms["unconfirmed"];
    };
  };
  readonly drain: { readonly delayMs: number; readonly timeoutMs: number };
  readonly log: AccessLogSettings & { readonly level: LogLevel; readonly time: LogTime };
}

export type Scheme = "http" | "https";

/** Paths are absolute. */
export interface AdminSettings extends HostPort {
  /** Null: there is no API over TCP. */
  readonly tokensFile: string | null;
  /** Hosts with or without a port; none: loopback names and the listener's own address. */
  readonly hosts: readonly string[];
  /** Null: there is no Unix socket. */
  readonly socket: string | null;
  /** Null: plain. */
  readonly tls: (CertificateAndKey & TlsOffer) | null;
  /** How much is remembered of the last minutes; 0: nothing. */
  readonly recent: { readonly refusals: number; readonly keys: number };
}

interface ExtAuthSettings {
  /** Null: no checks over HTTP. */
  readonly http: ExtAuthListenerSettings | null;
  /** Null: no checks over gRPC. */
  readonly grpc: ExtAuthListenerSettings | null;
  /** Addresses and networks of the ingresses that may check requests. */
  readonly trustedCallers: readonly string[];
  readonly secretsFile: string | null;
  readonly denyStatus: DenyStatus;
}

export interface ExtAuthListenerSettings extends HostPort {
  readonly maxConnections: number;
}

/** 429: a refusal has the status that it has for clients. 403: a refusal other than 401 has status 403. */
export type DenyStatus = 429 | 403;

/** How whom a token stands for is logged. `hashed`: by a keyed hash. */
export type LoggedSubject = "plain" | "hashed" | "off";

/** How the time of a line is written: in Unix milliseconds, or as in RFC 3339 in UTC, with milliseconds. */
export type LogTime = "unix" | "iso";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/** The bounds on connections of clients. */
interface ConnectionBounds {
  /** Open at once, from the moment they are accepted. */
  readonly maxConnections: number;
  /** Of one peer; IPv6 peers are grouped as clients are. Trusted proxies are exempt. */
  readonly maxConnectionsPerPeer: number;
  /** Of one peer in a second, and `maxConnectionsPerPeer` more at once. Trusted proxies are exempt. */
  readonly newConnectionsPerPeer: number;
  /** Requests on one connection; the answer to the last says that it closes. */
  readonly maxRequestsPerConnection: number;
}

/** The files of a certificate and its key: absolute paths, PEM. */
interface CertificateAndKey {
  /** The certificate of the server, then the intermediate certificates. */
  readonly cert: string;
  readonly key: string;
}

export interface TlsFiles extends CertificateAndKey {
  /** The authorities of the certificates that clients must present; null: clients need none. */
  readonly clientCa: string | null;
}

/** What is absent is the default. */
export interface TlsOffer {
  readonly minVersion?: "TLSv1.2" | "TLSv1.3";
  /** Names of cipher suites, the preferred one first. */
  readonly ciphers?: readonly string[];
}

interface ListenerTls extends TlsFiles, TlsOffer {
  /** Whether HTTP/2 is offered beside HTTP/1.1. */
  readonly http2: boolean;
}

/** In Unix milliseconds. */
export interface Validity {
  readonly validFromMs: number;
  /** Exclusive. */
  readonly expiresMs: number;
}

/** The texts of the files, in PEM. */
export interface Certificate extends TlsFiles, Validity {
  /** What handshakes with it agree on: further options of `node:tls`. */
  readonly handshake: { readonly minVersion: "TLSv1.2" | "TLSv1.3"; readonly ciphers: string };
}

export interface CertificateInUse {
  /** Unix milliseconds, exclusive. */
  readonly expiresMs: number;
  /** False while the files are missing or wrong, and an earlier certificate is in use. */
  readonly isCurrent: boolean;
}

export interface StreamSettings {
  /** In this thread. */
  readonly streams: StreamBounds;
}

/**
 * What the traffic listener and its transports take from the configuration. A reload replaces it as a whole: each
 * connection uses what is current when it is accepted, and each request what is current when it begins.
 */
export interface TrafficSettings extends StreamSettings {
  readonly bounds: ConnectionBounds;
  readonly headBounds: HeadBounds;
  /** New connections of one peer, in this thread. */
  readonly newConnections: TokenRate;
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** How long a request that has been answered may go on being sent. */
  readonly lingerMs: number;
  /** Maximum time without a byte in either direction during an exchange. */
  readonly stallTimeoutMs: number;
  /** In lower case. */
  readonly upgradeProtocols: ReadonlySet<string>;
  readonly clientAddress: ClientAddressRules;
  /** Of clients whose PROXY header does not say it. */
  readonly proxyScheme: Scheme;
  /** Null: connections are plain. A reload does not change whether it is null. */
  readonly tls: TrafficTls | null;
}

export interface StreamBounds {
  readonly max: number;
  /** In addition, a peer gets at most as many as are free. */
  readonly maxPerPeer: number;
}

interface TrafficTls {
  readonly certificate: Watched<Certificate>;
  /** From which the keys of session tickets are made. Null: this thread alone has them. */
  readonly ticketSecret: Uint8Array | null;
  /** Whether HTTP/2 is offered. */
  readonly http2: boolean;
}

/** Holds what a reload replaces. */
export interface Replaceable<T> {
  current: T;
}

/**
 * What one of several threads may use of a bound of the process. What protects memory or the upstream is divided evenly
 * and rounded down, so that all threads together stay within the bound; no share is below 1. What is counted for all
 * threads together (open connections, the policies) is not divided. Threads that carry traffic, at most. They are
 * numbered from 1.
 */
export const maxThreads = 64;

export function shareOf(bound: number, threads: number): number {
  return Math.max(1, Math.floor(bound / threads));
}

/**
 * The settings of each of the `workers` threads. With one thread they are the same. What `listen` bounds is whole here:
 * gateway/configuration.ts divides what is not counted for all threads.
 */
export function settingsOfThread(settings: Settings): Settings {
  const { workers, upstream, upgrade, extAuth, refusals, counters } = settings;
  if (workers === 1) return settings;
  const share = (bound: number): number => shareOf(bound, workers);
  const callers = <T extends { readonly maxConnections: number }>(listener: T | null): T | null =>
    listener && { ...listener, maxConnections: share(listener.maxConnections) };
  const { redis } = counters;
  return {
    ...settings,
    counters: redis === null ? counters : { ...counters, redis: withShareOfKeys(redis, workers) },
    upstream: { ...upstream, maxConnections: share(upstream.maxConnections) },
    upgrade: { ...upgrade, maxTunnels: share(upgrade.maxTunnels) },
    extAuth: { ...extAuth, http: callers(extAuth.http), grpc: callers(extAuth.grpc) },
    refusals: { perSecond: share(refusals.perSecond), burst: share(refusals.burst) },
  };
}

type SharedCounters = NonNullable<Settings["counters"]["redis"]>;

function withShareOfKeys(redis: SharedCounters, workers: number): SharedCounters {
  return { ...redis, store: { ...redis.store, maxKeys: shareOf(redis.store.maxKeys, workers) } };
}
