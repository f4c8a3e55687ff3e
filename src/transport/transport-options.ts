// The options of the transports, for all protocols.
import type { Http2CloseReason, Http2ResetReason } from "../core/connection-ends.ts";
import type { Replaceable, TrafficSettings } from "../core/settings.ts";
import type { RuntimeRef } from "../exchange/exchange.ts";
import type { TextWrites } from "../exchange/socket-writes.ts";
import type { SharedReads } from "../exchange/sockets.ts";

export interface TransportOptions {
  readonly runtime: RuntimeRef;
  readonly settings: Replaceable<TrafficSettings>;
  readonly http2: Http2Options;
  /** Null: all connections are read as streams. */
  readonly reads: SharedReads | null;
  readonly textWrites: TextWrites;
}

interface Http2Options {
  /** How long a client may leave the first GOAWAY unacknowledged, and keep its connection open after its last stream. */
  readonly closeMs: number;
  /** Called when a connection is closed because it costs too much. `peer` is an address. */
  readonly onClosed: (reason: Http2CloseReason, peer: string) => void;
  /** Called when a stream is refused or reset because of a bound. */
  readonly onReset: (reason: Http2ResetReason) => void;
}
