// One open connection to one address of the upstream, and how a request gets it and leaves it.
import type { Endpoint, EndpointConnection } from "./endpoint.ts";
import type { Opened } from "./endpoints.ts";
import { Http1Connection, type ResponseHandler } from "./http1-connection.ts";
import type { UpstreamRequest } from "./upstream-request.ts";

export interface UpstreamConnectionOptions {
  readonly responseTimeoutMs: number;
  readonly onClose?: (connection: UpstreamConnection) => void;
}

export class UpstreamConnection implements EndpointConnection {
  readonly endpoint: Endpoint;
  isProbe: boolean;
  isClosed = false;
  readonly #http: Http1Connection;

  constructor({ reader, endpoint, isProbe }: Opened, { responseTimeoutMs, onClose }: UpstreamConnectionOptions) {
    this.endpoint = endpoint;
    this.isProbe = isProbe;
    this.#http = new Http1Connection(reader, {
      responseTimeoutMs,
      onClose: () => {
        this.isClosed = true;
        onClose?.(this);
      },
    });
  }

  /** Whether a request that is sent now may meet the close of an idle connection. */
  get isReused(): boolean {
    return this.#http.isReused;
  }

  send(request: UpstreamRequest, handler: ResponseHandler): void {
    this.#http.send(request, handler);
  }

  pause(): void {
    this.#http.pause();
  }

  /** `isFlushed`: nothing that was handed on is kept any more. */
  resume(isFlushed: boolean): void {
    this.#http.resume(isFlushed);
  }

  /** Takes back what was sent; its handler hears nothing more. A socket that was handed out is not reached. */
  abort(): void {
    this.#http.abort();
  }
}

/** A request in want of a connection. After it asked, one of the last two is called, once, unless it leaves first. */
export interface PoolWaiter {
  /** A connection is being opened for it: from now on it is the upstream that is waited for. */
  onOpening(): void;
  onConnection(connection: UpstreamConnection): void;
  /** Null: there are too many. `at`: where it was to lead. */
  onNoConnection(error: Error | null, at?: Endpoint): void;
}

/** Where a request gets its connection, and leaves it. */
export interface Connections {
  acquire(seeker: PoolWaiter): void;
  /** Does nothing after the seeker was answered. */
  leave(seeker: PoolWaiter): void;
  /** The request is over; the connection is used again unless it is closed. */
  release(connection: UpstreamConnection): void;
}
