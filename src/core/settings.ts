// The configuration as the rest of the gateway sees it: parsed, with units in the names. `config/` produces it; nothing
// else knows how it was written.
import type { ForwardingHeader } from "./client-address.ts";
import type { ConnectionBounds } from "./connection-bounds.ts";
import type { FieldKind } from "./fields.ts";
import type { Policy } from "./policy.ts";
import type { ListenerTls } from "./tls.ts";
import type { UpstreamSettings } from "./upstream.ts";

export interface Settings {
  readonly listen: ConnectionBounds & {
    readonly host: string;
    readonly port: number;
    readonly proxyProtocol: boolean;
    /** Null: plain. */
    readonly tls: ListenerTls | null;
  };
  readonly admin: { readonly host: string; readonly port: number };
  /** "/" or "/something": what stands before the routes in a client's target. No slash at the end, save "/" itself. */
  readonly basePath: string;
  readonly upstream: UpstreamSettings;
  /** In lower case: the protocols an Upgrade is passed on for. */
  readonly upgrade: {
    readonly protocols: readonly string[];
    readonly maxTunnels: number;
    readonly idleTimeoutMs: number;
  };
  /** Path prefixes below the base path, each beginning and ending with a slash. */
  readonly routes: readonly string[];
  readonly unmatched: "reject" | "proxy";
  readonly clientAddress: {
    readonly trustedProxies: readonly string[];
    readonly header: ForwardingHeader;
    readonly ipv6Prefix: number;
  };
  /** Exactly one, until several are supported. */
  readonly policies: readonly [Policy];
  readonly auth: {
    readonly mode: "off" | "presence" | "tokens";
    readonly realm: string;
    /** Absolute path, resolved from the folder of the config file that named it. */
    readonly tokensFile: string | null;
  };
  readonly extAuth: ExtAuthSettings;
  readonly fields: readonly FieldKind[];
  readonly maxBodyBytes: number;
  readonly timeouts: { readonly headMs: number; readonly bodyMs: number; readonly keepAliveMs: number };
  readonly drain: { readonly delayMs: number; readonly timeoutMs: number };
  readonly log: { readonly level: LogLevel; readonly access: boolean };
}

export interface ExtAuthSettings {
  /** Null: nobody can ask over HTTP. */
  readonly http: ExtAuthListenerSettings | null;
  /** Null: nobody can ask over gRPC. */
  readonly grpc: ExtAuthListenerSettings | null;
  /** Addresses and networks that may ask. */
  readonly trustedCallers: readonly string[];
  /** Absolute path, as that of the tokens file. */
  readonly secretsFile: string | null;
  readonly denyStatus: DenyStatus;
}

export interface ExtAuthListenerSettings {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
}

/** 429: every refusal has the status that a client of the proxy would get. 403: every refusal but 401 is a 403. */
export type DenyStatus = 429 | 403;

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";
