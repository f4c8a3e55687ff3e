// The connections that leave HTTP: each tunnel has a connection to the upstream of its own, opened for it and used for
// nothing else. At most `maxTunnels` at once, those included that wait for the upstream's response; one more is refused
// at once.
import type { Socket } from "node:net";
import type { TunnelEnd } from "../core/tunnel-end.ts";
import type { TunnelFigures } from "../core/upstream.ts";
import type { Endpoints } from "./endpoints.ts";
import { Tunnel, type TunnelOptions } from "./tunnel.ts";
import { type Connections, type PoolWaiter, UpstreamConnection } from "./upstream-connection.ts";
import { UpstreamFailure } from "./upstream-failure.ts";

export interface TunnelsOptions extends Omit<TunnelOptions, "onEnd"> {
  readonly endpoints: Endpoints;
  readonly responseTimeoutMs: number;
  readonly maxTunnels: number;
  /** Called once for each tunnel that was open. */
  readonly onEnd: (end: TunnelEnd) => void;
}

export class Tunnels implements Connections {
  readonly #options: TunnelsOptions;
  /** Each with the function that cancels the opening. */
  readonly #opening = new Map<PoolWaiter, () => void>();
  /** Waiting for the upstream's response. */
  readonly #requesting = new Set<UpstreamConnection>();
  readonly #open = new Set<Tunnel>();

  constructor(options: TunnelsOptions) {
    this.#options = options;
  }

  acquire(waiter: PoolWaiter): void {
    const { endpoints, maxTunnels, responseTimeoutMs } = this.#options;
    if (this.#opening.size + this.#requesting.size + this.#open.size >= maxTunnels) {
      waiter.onNoConnection(null);
      return;
    }
    const endpoint = endpoints.choose();
    if (endpoint === null) {
      waiter.onNoConnection(new UpstreamFailure("ENOTFOUND"));
      return;
    }
    const cancelOpening = endpoints.open(endpoint, {
      // The tunnel passes the end of one direction on and keeps the other.
      allowHalfOpen: true,
      onOpened: (opened) => {
        this.#opening.delete(waiter);
        const connection = new UpstreamConnection(opened, { responseTimeoutMs });
        this.#requesting.add(connection);
        waiter.onConnection(connection);
      },
      onFailed: (error, at) => {
        this.#opening.delete(waiter);
        waiter.onNoConnection(error, at);
      },
    });
    this.#opening.set(waiter, cancelOpening);
    waiter.onOpening();
  }

  cancel(waiter: PoolWaiter): void {
    this.#opening.get(waiter)?.();
    this.#opening.delete(waiter);
  }

  /** The request on the connection is over. If it became a tunnel, its socket has left the connection. */
  release(connection: UpstreamConnection): void {
    this.#options.endpoints.endRequest(connection);
    this.#requesting.delete(connection);
    connection.abort();
  }

  /** `early` is what the client sent before the upstream's response; `id` is the request's. */
  join(client: Socket, upstream: Socket, early: readonly Buffer[], id: string): void {
    const { idleTimeoutMs, nowMs } = this.#options;
    const onEnd = (end: Omit<TunnelEnd, "id">): void => {
      this.#open.delete(tunnel);
      this.#options.onEnd({ id, ...end });
    };
    const tunnel = new Tunnel(client, upstream, { idleTimeoutMs, nowMs, onEnd });
    this.#open.add(tunnel);
    tunnel.start(early);
  }

  figures(): TunnelFigures {
    return { opening: this.#opening.size + this.#requesting.size, open: this.#open.size };
  }

  close(): void {
    for (const tunnel of this.#open) tunnel.destroy();
    for (const waiter of [...this.#opening.keys()]) {
      this.cancel(waiter);
      waiter.onNoConnection(null);
    }
    for (const connection of this.#requesting) connection.abort();
  }
}
