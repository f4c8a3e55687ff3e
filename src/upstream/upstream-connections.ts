// The connection pool: at most `maxConnections` connections to all addresses of the upstream together. Each carries one
// request at a time and is kept for the next one. As many requests may wait for a connection, each for at most the connect
// timeout; other requests are refused. Clients share the connections and the queue: one client gets at most as many as remain
// free. The connection that was used last is used first, so that those that are not needed become idle and close. A request that
// cannot be repeated gets none that has been idle for long, but a new one in its place.
import type { OnShareExceeded } from "../core/client-share.ts";
import type { ConnectionFigures, KeepAliveMs, ResponseTimeouts } from "../core/upstream.ts";
import { SharedPlaces } from "./client-places.ts";
import type { ClientHolding, Reclaimable } from "./client-shares.ts";
import type { Endpoint, EndpointConnection, Endpoints, OpenedConnection } from "./endpoints.ts";
import type { Waiter } from "./fair-queue.ts";
import { type ConnectionResources, OutboundConnection } from "./outbound-connection.ts";
import { UpstreamFailure } from "./upstream-error.ts";
import { freshMsOf } from "./upstream-socket.ts";

interface UpstreamConnectionsOptions {
  readonly endpoints: Endpoints;
  readonly connectTimeoutMs: number;
  readonly keepAliveMs: KeepAliveMs;
  readonly maxConnections: number;
  readonly nowMs: () => number;
  readonly onShareExceeded: OnShareExceeded;
}

export class UpstreamConnections implements ConnectionPool {
  readonly #options: UpstreamConnectionsOptions;
  readonly #endpoints: Endpoints;
  readonly #connectionOptions: UpstreamConnectionOptions;
  readonly #all = new Set<EndpointConnection>();
  /** Each with the function that cancels the opening. */
  readonly #opening = new Map<PoolWaiter, () => void>();
  readonly #places: SharedPlaces<PoolWaiter>;

  constructor(options: UpstreamConnectionsOptions) {
    this.#options = options;
    this.#places = new SharedPlaces({
      total: options.maxConnections,
      timeoutMs: options.connectTimeoutMs,
      onRefused: (waiter) => waiter.onNoConnection(null),
      onShareExceeded: options.onShareExceeded,
    });
    this.#connectionOptions = {
      ...options.endpoints.resources,
      keepAliveMs: options.keepAliveMs,
      // A connection that closes during a request is removed when that request releases it.
      onClose: (connection) => {
        if (connection.endpoint.idle.includes(connection)) this.#remove(connection);
      },
    };
    this.#endpoints = options.endpoints;
    this.#endpoints.onRemoved = ({ idle }) => {
      for (const connection of [...idle]) this.#remove(connection);
    };
  }

  /** Calls the waiter at once if a connection is idle for its client, or if there can be none. */
  acquire(waiter: PoolWaiter): void {
    const endpoint = this.#endpoints.choose();
    if (endpoint === null) waiter.onNoConnection(new UpstreamFailure("ENOTFOUND"));
    else if (this.#places.isFreeFor(waiter.client)) this.#assign(endpoint, waiter);
    else this.#places.wait(waiter);
  }

  cancel(waiter: PoolWaiter): void {
    this.#places.leave(waiter);
    const cancelOpening = this.#opening.get(waiter);
    if (cancelOpening === undefined) return;
    this.#opening.delete(waiter);
    cancelOpening();
    this.#serveWaiting();
  }

  mayReclaim({ holding }: UpstreamConnection, waiter: PoolWaiter): void {
    this.#places.mayReclaim(holding, waiter);
  }

  release(connection: UpstreamConnection, waiter: PoolWaiter): void {
    this.#endRequest(connection, waiter);
    connection.idleSinceMs = connection.pausedSinceMs ?? this.#options.nowMs();
    connection.pausedSinceMs = null;
    if (connection.isClosed || connection.endpoint.isRemoved) this.#remove(connection);
    else connection.endpoint.idle.push(connection);
    if (this.#places.waiting > 0) this.#serveWaiting();
  }

  /** Opens a connection in place of one that was closed, before any request that waits gets one. */
  replace(connection: UpstreamConnection, waiter: PoolWaiter): void {
    this.#endRequest(connection, waiter);
    this.#remove(connection);
    this.#open(this.#endpoints.choose() ?? connection.endpoint, waiter);
  }

  /** Notes that a new connection was reset before a byte of a response. */
  resetUnanswered(connection: UpstreamConnection | null): void {
    if (connection !== null) this.#endpoints.resetUnanswered(connection.endpoint);
  }

  figures(): ConnectionFigures {
    let idle = 0;
    for (const endpoint of this.#endpoints.all) idle += endpoint.idle.length;
    return { active: this.#all.size + this.#opening.size - idle, idle, waiting: this.#places.waiting };
  }

  /** Whether more than a quarter of the connections are in use. Then none is given to a request whose body comes slowly. */
  get isScarce(): boolean {
    return this.figures().active > this.#options.maxConnections / 4;
  }

  /** Closes all connections, those with a request too. */
  close(): void {
    for (const waiter of [...this.#places.close(), ...this.#opening.keys()]) {
      this.cancel(waiter);
      waiter.onNoConnection(null);
    }
    for (const connection of this.#all) connection.abort();
  }

  /** Only if a place is free: then a connection is idle, or one more may be opened. */
  #assign(chosen: Endpoint, waiter: PoolWaiter): void {
    const { nowMs, keepAliveMs, maxConnections } = this.#options;
    const afterMs = waiter.mayRepeat ? Number.NEGATIVE_INFINITY : nowMs() - freshMsOf(keepAliveMs);
    if (chosen.hasIdle(afterMs)) {
      this.#assignIdle(chosen, waiter);
      return;
    }
    // A new connection takes the place of one that has been idle for too long, so that their number does not grow.
    let [spare] = chosen.idle;
    if (spare === undefined && this.#all.size + this.#opening.size >= maxConnections) {
      const other = this.#endpoints.chooseIdle(afterMs);
      if (other !== null && !needsConnection(chosen, other)) {
        this.#assignIdle(other, waiter);
        return;
      }
      // If only ejected addresses have idle connections, one of those makes room.
      [spare] = (other ?? this.#endpoints.all.find(({ idle }) => idle.length > 0) ?? chosen).idle;
    }
    if (spare !== undefined) this.#remove(spare);
    this.#open(chosen, waiter);
  }

  #assignIdle(endpoint: Endpoint, waiter: PoolWaiter): void {
    const connection = endpoint.idle.pop() as UpstreamConnection;
    this.#endpoints.beginRequest(connection);
    connection.holding = this.#places.hold(waiter.client);
    waiter.onConnection(connection);
  }

  #open(endpoint: Endpoint, waiter: PoolWaiter): void {
    const holding = this.#places.hold(waiter.client);
    const cancelOpening = this.#endpoints.open(endpoint, {
      onOpened: (opened) => {
        this.#opening.delete(waiter);
        const connection = new UpstreamConnection(opened, holding, this.#connectionOptions);
        this.#all.add(connection);
        waiter.onConnection(connection);
      },
      onFailed: (error, at) => {
        this.#opening.delete(waiter);
        this.#places.release(holding, waiter);
        waiter.onNoConnection(error, at);
        this.#serveWaiting();
      },
    });
    this.#opening.set(waiter, () => {
      cancelOpening();
      this.#places.release(holding, waiter);
    });
    waiter.onOpening();
  }

  #endRequest(connection: UpstreamConnection, waiter: PoolWaiter): void {
    this.#endpoints.endRequest(connection);
    this.#places.release(connection.holding, waiter);
  }

  /** Takes a connection out of the pool, and closes it if it is open. */
  #remove(connection: EndpointConnection): void {
    const { idle } = connection.endpoint;
    const at = idle.indexOf(connection);
    if (at !== -1) idle.splice(at, 1);
    this.#all.delete(connection);
    if (!connection.isClosed) connection.abort();
  }

  #serveWaiting(): void {
    while (this.#places.waiting > 0) {
      const endpoint = this.#endpoints.choose();
      const waiter = endpoint === null ? undefined : this.#places.next();
      if (endpoint === null || waiter === undefined) return;
      this.#assign(endpoint, waiter);
    }
  }
}

/**
 * Whether an idle connection of `other` is closed for a new one to `chosen`. Without it, an address that works again would get
 * no request while there are as many connections as allowed. Between addresses with equally many requests, each request would
 * undo what the one before did.
 */
function needsConnection(chosen: Endpoint, other: Endpoint): boolean {
  return chosen.isEjected || chosen.pending < other.pending;
}

interface UpstreamConnectionOptions extends ConnectionResources, ResponseTimeouts {
  readonly keepAliveMs?: KeepAliveMs;
  readonly onClose?: (connection: UpstreamConnection) => void;
}

/** A connection to one address of the upstream, and the interfaces by which a request gets one and gives it back. */
export class UpstreamConnection extends OutboundConnection implements EndpointConnection {
  readonly endpoint: Endpoint;
  isProbe: boolean;
  idleSinceMs = Number.NEGATIVE_INFINITY;
  /** When the client first read its response too slowly: the upstream may have sent the end of it since then. */
  pausedSinceMs: number | null = null;
  /** Of the client whose request it carries, or carried last. */
  holding: ClientHolding;

  constructor(
    { reader, endpoint, isProbe }: OpenedConnection,
    holding: ClientHolding,
    options: UpstreamConnectionOptions,
  ) {
    const { onClose } = options;
    super(reader, { ...options, onClose: () => onClose?.(this) });
    this.endpoint = endpoint;
    this.isProbe = isProbe;
    this.holding = holding;
  }
}

/** A request that needs a connection. `acquire` leads to one call of onConnection or onNoConnection, unless cancelled. */
export interface PoolWaiter extends Waiter, Reclaimable {
  /** Whether the request may be sent on a connection that the upstream may be closing. */
  readonly mayRepeat: boolean;
  /** A connection is being opened for it: the time that passes from now on is the upstream's. */
  onOpening(): void;
  onConnection(connection: UpstreamConnection): void;
  /** Null: the bound on connections or on waiting requests is reached. `at`: the address that failed. */
  onNoConnection(error: Error | null, at?: Endpoint): void;
}

export interface ConnectionPool {
  acquire(waiter: PoolWaiter): void;
  /** Withdraws what `acquire` asked for. Does nothing if it has been answered. */
  cancel(waiter: PoolWaiter): void;
  /** From now on, the connection is taken back if its request is idle and another client needs it. */
  mayReclaim(connection: UpstreamConnection, waiter: PoolWaiter): void;
  /** Takes a connection back when its request is over; it is used again unless it is closed. */
  release(connection: UpstreamConnection, waiter: PoolWaiter): void;
}
