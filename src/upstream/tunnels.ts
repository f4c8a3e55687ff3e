// The connections that leave HTTP: each tunnel has a connection to the upstream of its own, opened for it and used for
// nothing else. At most `maxTunnels` at once, including those that wait for the upstream's response. One client gets at
// most as many as are free. If none is free for a client without a tunnel, the longest idle tunnel of the client with the
// most is closed for it. Every other tunnel beyond these bounds is refused at once.
import type { Socket } from "node:net";
import type { OnShareExceeded } from "../core/client-share.ts";
import type { TunnelEnd } from "../core/connection-ends.ts";
import type { TunnelFigures } from "../core/upstream.ts";
import type { TunnelStart } from "../exchange/transport.ts";
import { ClientShares } from "./client-shares.ts";
import type { Endpoints } from "./endpoints.ts";
import { Tunnel, type TunnelOptions } from "./tunnel.ts";
import { type Connections, type PoolWaiter, UpstreamConnection } from "./upstream-connection.ts";
import { UpstreamFailure } from "./upstream-failure.ts";

export interface TunnelsOptions extends Omit<TunnelOptions, "onClosing" | "onEnd"> {
  readonly endpoints: Endpoints;
  readonly responseTimeoutMs: number;
  readonly maxTunnels: number;
  readonly onShareExceeded: OnShareExceeded;
  /** Called once for each tunnel that was open. */
  readonly onEnd: (end: TunnelEnd) => void;
}

/** So little that also a tunnel in use can be closed. */
const minIdleMs = 1;

export class Tunnels implements Connections {
  readonly #options: TunnelsOptions;
  /** Each with the function that cancels the opening. */
  readonly #opening = new Map<PoolWaiter, () => void>();
  /** Waiting for the upstream's response. */
  readonly #requesting = new Set<UpstreamConnection>();
  readonly #open = new Set<Tunnel>();
  readonly #shares: ClientShares;

  constructor(options: TunnelsOptions) {
    this.#options = options;
    const { maxTunnels: total, onShareExceeded: onExceeded } = options;
    this.#shares = new ClientShares({ resource: "tunnels", total, onExceeded });
  }

  acquire(waiter: PoolWaiter): void {
    const { endpoints, responseTimeoutMs } = this.#options;
    if (!this.#hasRoom(waiter)) return;
    const endpoint = endpoints.choose();
    if (endpoint === null) {
      waiter.onNoConnection(new UpstreamFailure("ENOTFOUND"));
      return;
    }
    const share = this.#shares.hold(waiter.client);
    const cancelOpening = endpoints.open(endpoint, {
      // The tunnel passes the end of one direction on and keeps the other.
      isStream: true,
      onOpened: (opened) => {
        this.#opening.delete(waiter);
        const connection = new UpstreamConnection(opened, share, { ...endpoints.shared, responseTimeoutMs });
        this.#requesting.add(connection);
        waiter.onConnection(connection);
      },
      onFailed: (error, at) => {
        this.#opening.delete(waiter);
        this.#shares.release(share);
        waiter.onNoConnection(error, at);
      },
    });
    this.#opening.set(waiter, () => {
      cancelOpening();
      this.#shares.release(share);
    });
    waiter.onOpening();
  }

  cancel(waiter: PoolWaiter): void {
    this.#opening.get(waiter)?.();
    this.#opening.delete(waiter);
  }

  mayReclaim({ share }: UpstreamConnection, waiter: PoolWaiter): void {
    this.#shares.addReclaimable(share, waiter);
  }

  /** The request on the connection is over. If it became a tunnel, its socket has left the connection. */
  release(connection: UpstreamConnection, waiter: PoolWaiter): void {
    this.#options.endpoints.endRequest(connection);
    connection.share.reclaimable?.delete(waiter);
    this.#shares.release(connection.share);
    this.#requesting.delete(connection);
    connection.abort();
  }

  /** Takes the sockets of a request that has been released. */
  join(start: TunnelStart, upstream: Socket, { id, client }: { id: string; client: string }): void {
    const { socket, early, held, whenTokenEnds } = start;
    const { idleTimeoutMs, nowMs } = this.#options;
    const share = this.#shares.hold(client);
    const release = (): void => {
      if (!this.#open.delete(tunnel)) return;
      share.reclaimable?.delete(tunnel);
      this.#shares.release(share);
    };
    const onEnd = (end: Omit<TunnelEnd, "id">): void => {
      release();
      cancelTokenEnd?.();
      held?.end(101);
      this.#options.onEnd({ id, ...end });
    };
    const tunnel = new Tunnel(socket, upstream, { idleTimeoutMs, nowMs, onClosing: release, onEnd });
    const cancelTokenEnd = whenTokenEnds?.(() => tunnel.tokenEnded());
    this.#open.add(tunnel);
    this.#shares.addReclaimable(share, tunnel);
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

  /** Returns whether the waiter may have a tunnel, and makes room for it if needed. Otherwise the waiter is refused. */
  #hasRoom(waiter: PoolWaiter): boolean {
    const { client } = waiter;
    const held = this.#shares.find(client)?.held ?? 0;
    if (this.#shares.hasShareLeft(held)) return true;
    if (held === 0 && this.#shares.reclaim(minIdleMs)) return true;
    if (held === 0) waiter.onNoConnection(null);
    else {
      this.#options.onShareExceeded("tunnels", client);
      waiter.onShareExceeded("tunnels");
    }
    return false;
  }
}
