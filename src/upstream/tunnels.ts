// The connections that leave HTTP: each has one to the upstream of its own, opened for it and never used for anything
// else. At most `maxTunnels` at once, the ones that wait for the upstream's answer included; who comes later is told at
// once.
import type { Socket } from "node:net";
import type { TunnelEnd } from "../core/tunnel-end.ts";
import type { TunnelFigures } from "../core/upstream.ts";
import type { Endpoints } from "./endpoints.ts";
import { Tunnel } from "./tunnel.ts";
import { type Connections, type PoolWaiter, UpstreamConnection } from "./upstream-connection.ts";

export interface TunnelsOptions {
  readonly endpoints: Endpoints;
  readonly responseTimeoutMs: number;
  readonly maxTunnels: number;
  readonly idleTimeoutMs: number;
  readonly nowMs: () => number;
  /** Told once of each that was open. */
  readonly onEnd: (end: TunnelEnd) => void;
}

export class Tunnels implements Connections {
  readonly #options: TunnelsOptions;
  /** With what gives the attempt up. */
  readonly #opening = new Map<PoolWaiter, () => void>();
  readonly #asking = new Set<UpstreamConnection>();
  readonly #open = new Set<Tunnel>();

  constructor(options: TunnelsOptions) {
    this.#options = options;
  }

  /** Tells at once if there are as many as there may be. */
  acquire(seeker: PoolWaiter): void {
    const { endpoints, maxTunnels, responseTimeoutMs } = this.#options;
    if (this.#opening.size + this.#asking.size + this.#open.size >= maxTunnels) {
      seeker.onNoConnection(null);
      return;
    }
    const endpoint = endpoints.choose();
    if (endpoint === null) {
      seeker.onNoConnection(endpoints.noAddress());
      return;
    }
    // The tunnel passes the end of one direction on and keeps the other.
    const options = { allowHalfOpen: true };
    const giveUp = endpoints.open(endpoint, options, {
      onOpened: (opened) => {
        this.#opening.delete(seeker);
        const connection = new UpstreamConnection(opened, { responseTimeoutMs });
        this.#asking.add(connection);
        seeker.onConnection(connection);
      },
      onFailed: (error, at) => {
        this.#opening.delete(seeker);
        seeker.onNoConnection(error, at);
      },
    });
    this.#opening.set(seeker, giveUp);
    seeker.onOpening();
  }

  leave(seeker: PoolWaiter): void {
    this.#opening.get(seeker)?.();
    this.#opening.delete(seeker);
  }

  /** It was no tunnel after all, or has become one by now: the request on it is over. */
  release(connection: UpstreamConnection): void {
    this.#options.endpoints.endLease(connection);
    this.#asking.delete(connection);
    connection.abort();
  }

  /** `early` is what the client sent before the upstream had answered; `id` is that of its request. */
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
    return { opening: this.#opening.size + this.#asking.size, open: this.#open.size };
  }

  close(): void {
    for (const tunnel of this.#open) tunnel.destroy();
    for (const seeker of [...this.#opening.keys()]) {
      this.leave(seeker);
      seeker.onNoConnection(null);
    }
    for (const connection of this.#asking) connection.abort();
  }
}
