// The options of the transports, for all protocols.
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
}
