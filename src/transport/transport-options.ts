// The options of the transports, for all protocols.
import type { ConnectionBounds } from "../core/connection-bounds.ts";
import type { Http2CloseReason, Http2ResetReason } from "../core/http2-bounds.ts";
import type { RuntimeRef } from "../exchange/exchange.ts";

export interface TransportOptions {
  readonly runtime: RuntimeRef;
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** Maximum time without a byte in either direction during an exchange. */
  readonly stallTimeoutMs: number;
  /** On one connection. */
  readonly maxRequests: number;
  /** In lower case. */
  readonly upgradeProtocols: ReadonlySet<string>;
  /** True: every response from now on is the last on its connection. */
  readonly isDraining: () => boolean;
  readonly http2: Http2Options;
}

export interface Http2Options {
  /** The bounds on open streams are those on connections. */
  readonly bounds: ConnectionBounds;
  /** How long a client may keep its connection open after the GOAWAY and its last stream. */
  readonly lingerMs: number;
  /** Called when a connection is closed because it costs too much. `peer` is an address. */
  readonly onClosed: (reason: Http2CloseReason, peer: string) => void;
  /** Called when a stream is refused or reset because of a bound. */
  readonly onReset: (reason: Http2ResetReason) => void;
}
