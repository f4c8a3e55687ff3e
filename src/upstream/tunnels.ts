// The connections that leave HTTP: each tunnel has a connection to the upstream of its own, opened for it and used for
// nothing else. At most `maxTunnels` at once, including those that wait for the upstream's response. One client gets at
// most as many as are free. If none is free for a client without a tunnel, the longest idle tunnel of the client with the
// most is closed for it. Every other tunnel beyond these bounds is refused at once.
import type { Socket } from "node:net";
import type { OnShareExceeded } from "../core/client-share.ts";
import type { TunnelEnd, TunnelEndReason, TunnelOutcome } from "../core/connection-ends.ts";
import { ignoreError } from "../core/failure.ts";
import type { TunnelFigures } from "../core/upstream.ts";
import type { TunnelStart } from "../exchange/transport.ts";
import { ClientShares, type Reclaimable } from "./client-shares.ts";
import type { Endpoints } from "./endpoints.ts";
import { type ConnectionPool, type PoolWaiter, UpstreamConnection } from "./upstream-connections.ts";
import { UpstreamFailure } from "./upstream-error.ts";

interface TunnelTimes {
  /** The longest time without a byte in either direction. */
  readonly idleTimeoutMs: number;
  readonly nowMs: () => number;
}

export interface TunnelSettings extends TunnelTimes {
  readonly maxTunnels: number;
  readonly onShareExceeded: OnShareExceeded;
  /** Called once for each tunnel that was open. */
  readonly onEnd: (end: TunnelEnd) => void;
}

interface TunnelsOptions extends TunnelSettings {
  readonly endpoints: Endpoints;
}

export class Tunnels implements ConnectionPool {
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
    const { endpoints } = this.#options;
    if (!this.#hasRoom(waiter)) return;
    const endpoint = endpoints.choose();
    if (endpoint === null) {
      waiter.onNoConnection(new UpstreamFailure("ENOTFOUND"));
      return;
    }
    const holding = this.#shares.hold(waiter.client);
    const cancelOpening = endpoints.open(endpoint, {
      // The tunnel passes the end of one direction on and keeps the other.
      isStream: true,
      onOpened: (opened) => {
        this.#opening.delete(waiter);
        const connection = new UpstreamConnection(opened, holding, endpoints.resources);
        this.#requesting.add(connection);
        waiter.onConnection(connection);
      },
      onFailed: (error, at) => {
        this.#opening.delete(waiter);
        this.#shares.release(holding);
        waiter.onNoConnection(error, at);
      },
    });
    this.#opening.set(waiter, () => {
      cancelOpening();
      this.#shares.release(holding);
    });
    waiter.onOpening();
  }

  cancel(waiter: PoolWaiter): void {
    this.#opening.get(waiter)?.();
    this.#opening.delete(waiter);
  }

  mayReclaim({ holding }: UpstreamConnection, waiter: PoolWaiter): void {
    this.#shares.addReclaimable(holding, waiter);
  }

  /** The request on the connection is over. If it became a tunnel, its socket has left the connection. */
  release(connection: UpstreamConnection, waiter: PoolWaiter): void {
    this.#options.endpoints.endRequest(connection);
    connection.holding.reclaimable?.delete(waiter);
    this.#shares.release(connection.holding);
    this.#requesting.delete(connection);
    connection.abort();
  }

  /** Takes the sockets of a request that has been released. */
  join(start: TunnelStart, upstream: Socket, { id, client }: { id: string; client: string }): void {
    const { socket, early, held, whenTokenEnds } = start;
    const { idleTimeoutMs, nowMs } = this.#options;
    const holding = this.#shares.hold(client);
    const release = (): void => {
      if (!this.#open.delete(tunnel)) return;
      holding.reclaimable?.delete(tunnel);
      this.#shares.release(holding);
    };
    const onEnd = (end: TunnelOutcome): void => {
      release();
      cancelTokenEnd?.();
      held?.end(101);
      this.#options.onEnd({ id, ...end });
    };
    const tunnel = new Tunnel(socket, upstream, { idleTimeoutMs, nowMs, onClosing: release, onEnd });
    const cancelTokenEnd = whenTokenEnds?.(() => tunnel.tokenEnded());
    this.#open.add(tunnel);
    this.#shares.addReclaimable(holding, tunnel);
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
    if (held === 0 && this.#shares.reclaim(false)) return true;
    if (held === 0) waiter.onNoConnection(null);
    else {
      this.#options.onShareExceeded("tunnels", client);
      waiter.onShareExceeded("tunnels");
    }
    return false;
  }
}

interface TunnelOptions extends TunnelTimes {
  /** Called before the sockets are closed because another client needs a tunnel. */
  readonly onClosing: () => void;
  /** Called once, when both sockets are closed. */
  readonly onEnd: (end: TunnelOutcome) => void;
}

/**
 * Joins two sockets: bytes pass in order and unchanged, each direction as fast as its reader takes them. An end in one
 * direction is passed on while the other direction goes on; if one side breaks, both are closed. The bytes are not
 * looked at.
 */
class Tunnel implements Reclaimable {
  readonly #sockets: readonly [client: Socket, upstream: Socket];
  readonly #options: TunnelOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #startedMs: number;
  #movedMs: number;
  readonly #bytes = { client: 0, upstream: 0 };
  /** The first thing that happened; what comes later is its consequence. */
  #reason: TunnelEndReason | null = null;
  #closed = 0;

  constructor(client: Socket, upstream: Socket, options: TunnelOptions) {
    this.#sockets = [client, upstream];
    this.#options = options;
    this.#startedMs = options.nowMs();
    this.#movedMs = this.#startedMs;
    this.#timer = setTimeout(() => {
      this.#reason ??= "idle";
      this.destroy();
    }, options.idleTimeoutMs);
  }

  /** `early` goes to the upstream before anything else of the client's. */
  start(early: readonly Buffer[]): void {
    const [client, upstream] = this.#sockets;
    for (const socket of this.#sockets) {
      socket.allowHalfOpen = true;
      // The tunnel has an idle timer of its own; one that was set for HTTP no longer applies.
      socket.setTimeout(0);
      socket.setNoDelay(true);
      socket.on("error", ignoreError);
      socket.once("close", this.#onClose);
    }
    for (const bytes of early) {
      this.#bytes.client += bytes.length;
      upstream.write(bytes);
    }
    this.#carry("client", client, upstream);
    this.#carry("upstream", upstream, client);
    // One side may have closed since the 101.
    if (client.destroyed || upstream.destroyed) this.destroy();
  }

  /** How long it has been idle. A tunnel in use can be closed too. */
  slowness(): number {
    return this.#options.nowMs() - this.#movedMs;
  }

  onShareExceeded(): void {
    this.#reason ??= "over_share";
    this.#options.onClosing();
    this.destroy();
  }

  tokenEnded(): void {
    this.#reason ??= "token_ended";
    this.destroy();
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #carry(side: "client" | "upstream", from: Socket, to: Socket): void {
    from.on("data", (bytes: Buffer) => {
      this.#bytes[side] += bytes.length;
      this.#movedMs = this.#options.nowMs();
      this.#timer.refresh();
      if (!to.write(bytes)) from.pause();
    });
    to.on("drain", () => {
      this.#timer.refresh();
      from.resume();
    });
    from.on("end", () => {
      this.#reason ??= `${side}_closed`;
      to.end();
    });
    // A socket that closes first without an end or an error was closed by the gateway, which is stopping.
    from.once("close", () => {
      this.#reason ??= from.errored === null ? "drain" : `${side}_broken`;
    });
    if (to.writableNeedDrain) from.pause();
    else from.resume();
  }

  readonly #onClose = (): void => {
    this.#closed += 1;
    const [client, upstream] = this.#sockets;
    if (this.#closed < 2) {
      this.#endOther(client.destroyed ? upstream : client, client.destroyed ? client : upstream);
      return;
    }
    clearTimeout(this.#timer);
    const { client: clientBytes, upstream: upstreamBytes } = this.#bytes;
    const durationMs = Math.round(this.#options.nowMs() - this.#startedMs);
    this.#options.onEnd({ reason: this.#reason ?? "drain", durationMs, clientBytes, upstreamBytes });
  };

  /** A socket closes by itself after both directions have ended; its last bytes may still be on their way to the other. */
  #endOther(other: Socket, closed: Socket): void {
    if (closed.readableEnded && closed.writableFinished) other.end();
    else other.destroy();
  }
}
