// What the traffic listener and its transports take from the configuration. A reload replaces it as a whole: each
// connection uses what is current when it is accepted, and each request what is current when it begins.
import type { ClientAddressRules } from "./client-address.ts";
import type { Watched } from "./file-group.ts";
import type { ConnectionBounds } from "./settings.ts";
import type { Certificate } from "./tls.ts";
import type { TokenRate } from "./token-bucket.ts";

export interface TrafficSettings {
  readonly bounds: ConnectionBounds;
  /** New connections of one peer, in this thread. */
  readonly newConnections: TokenRate;
  /** In this thread. */
  readonly streams: StreamBounds;
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** Maximum time without a byte in either direction during an exchange. */
  readonly stallTimeoutMs: number;
  /** In lower case. */
  readonly upgradeProtocols: ReadonlySet<string>;
  readonly clientAddress: ClientAddressRules;
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
