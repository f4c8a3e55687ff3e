// A connection to one address of the upstream, and the interfaces by which a request gets one and gives it back.
import type { ClientShare, Reclaimable } from "./client-shares.ts";
import type { ConnectionResources } from "./connection-resources.ts";
import type { Endpoint, EndpointConnection, Opened } from "./endpoints.ts";
import type { Waiter } from "./fair-queue.ts";
import { OutboundConnection } from "./outbound-connection.ts";

export interface UpstreamConnectionOptions extends ConnectionResources {
  readonly responseTimeoutMs: number;
  readonly onClose?: (connection: UpstreamConnection) => void;
}

export class UpstreamConnection extends OutboundConnection implements EndpointConnection {
  readonly endpoint: Endpoint;
  isProbe: boolean;
  /** The share of the client whose request it carries, or carried last. */
  share: ClientShare;

  constructor({ reader, endpoint, isProbe }: Opened, share: ClientShare, options: UpstreamConnectionOptions) {
    const { onClose } = options;
    super(reader, { ...options, onClose: () => onClose?.(this) });
    this.endpoint = endpoint;
    this.isProbe = isProbe;
    this.share = share;
  }
}

/**
 * A request that needs a connection. `acquire` leads to one call of onConnection or onNoConnection, unless cancelled.
 */
export interface PoolWaiter extends Waiter, Reclaimable {
  /** A connection is being opened for it: the time that passes from now on is the upstream's. */
  onOpening(): void;
  onConnection(connection: UpstreamConnection): void;
  /** Null: the bound on connections or on waiting requests is reached. `at`: the address that failed. */
  onNoConnection(error: Error | null, at?: Endpoint): void;
}

export interface Connections {
  acquire(waiter: PoolWaiter): void;
  /** Withdraws what `acquire` asked for. Does nothing if it has been answered. */
  cancel(waiter: PoolWaiter): void;
  /** From now on, the connection is taken back if its request is idle and another client needs it. */
  mayReclaim(connection: UpstreamConnection, waiter: PoolWaiter): void;
  /** Takes a connection back when its request is over; it is used again unless it is closed. */
  release(connection: UpstreamConnection, waiter: PoolWaiter): void;
}
