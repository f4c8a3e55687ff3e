// The connections that leave HTTP: each has one to the upstream of its own, opened for it and never used for anything
// else. At most `maxTunnels` at once, the ones that wait for the upstream's answer included; who comes later is told at
// once.
import type { Socket } from "node:net";
import type { TunnelEnd } from "../core/tunnel-end.ts";
import type { TunnelFigures } from "../core/upstream.ts";
import type { Connector } from "./connector.ts";
import { Tunnel } from "./tunnel.ts";
import { UpstreamSlot } from "./upstream-slot.ts";

export interface TunnelsOptions {
  /** Of sockets that may be half-open: the tunnel passes the end of one direction on and keeps the other. */
  readonly connect: Connector;
  readonly responseTimeoutMs: number;
  readonly maxTunnels: number;
  readonly idleTimeoutMs: number;
  readonly nowMs: () => number;
  /** Told once of each that was open. */
  readonly onEnd: (end: TunnelEnd) => void;
}

export class Tunnels {
  readonly #options: TunnelsOptions;
  readonly #opening = new Set<UpstreamSlot>();
  readonly #open = new Set<Tunnel>();

  constructor(options: TunnelsOptions) {
    this.#options = options;
  }

  /** Calls `ready` at once, with null if there are as many as there may be. */
  acquire(ready: (connection: UpstreamSlot | null) => void): () => void {
    const { connect, responseTimeoutMs, maxTunnels } = this.#options;
    if (this.#opening.size + this.#open.size >= maxTunnels) {
      ready(null);
      return nothing;
    }
    const connection = new UpstreamSlot({ connect, responseTimeoutMs });
    this.#opening.add(connection);
    ready(connection);
    return nothing;
  }

  /** It was no tunnel after all, or has become one by now; the client library's side of it is over. */
  release(connection: UpstreamSlot): void {
    this.#opening.delete(connection);
    // A socket that was handed out is not the client's any more, so this does not reach it.
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
    return { opening: this.#opening.size, open: this.#open.size };
  }

  close(): void {
    for (const tunnel of this.#open) tunnel.destroy();
    for (const slot of this.#opening) slot.abort();
  }
}

const nothing = (): void => {};
