// Bounds the connections to a listener for checks. Trusted callers have a bound of their own, so that unverified peers
// cannot keep them out. Unverified peers share a number of places. However many of them one peer holds, another one
// gets a place, so that the health checks of an orchestrator are answered.
import type { Socket } from "node:net";
import { FairPlaces } from "../core/fair-places.ts";

/** Also enough for a caller that opens many connections at once before it shows its secret on each of them. */
const maxUnverified = 64;

export interface CallerConnectionsOptions {
  readonly maxTrusted: number;
  readonly isTrusted: (address: string | undefined) => boolean;
  /** Peers with the same key share places. */
  readonly peerKey: (address: string | undefined) => string;
  /** A connection of this address exceeded a bound and was closed. */
  readonly onClosed: (address: string) => void;
}

export class CallerConnections {
  readonly #options: CallerConnectionsOptions;
  readonly #trusted = new Set<Socket>();
  readonly #unverified = new FairPlaces<Socket>(maxUnverified);

  constructor(options: CallerConnectionsOptions) {
    this.#options = options;
  }

  /** Returns false if the connection exceeds its bound and was closed. */
  add(socket: Socket): boolean {
    const { maxTrusted, isTrusted, peerKey } = this.#options;
    const { remoteAddress } = socket;
    if (isTrusted(remoteAddress)) {
      if (this.#trusted.size >= maxTrusted) {
        this.#close(socket);
        return false;
      }
      this.#trusted.add(socket);
    } else {
      const evicted = this.#unverified.take(socket, peerKey(remoteAddress));
      if (evicted !== null) this.#close(evicted);
    }
    socket.once("close", () => {
      this.#trusted.delete(socket);
      this.#unverified.leave(socket);
    });
    return true;
  }

  isTrusted(socket: Socket): boolean {
    return this.#trusted.has(socket);
  }

  /** Counts a connection that has shown a secret among the trusted ones, unless those are at their bound. */
  promote(socket: Socket): void {
    if (this.#trusted.size >= this.#options.maxTrusted || !this.#unverified.leave(socket)) return;
    this.#trusted.add(socket);
  }

  /** Notes whether the connection has a call: connections of a peer without a call are closed before those with one. */
  setBusy(socket: Socket, isBusy: boolean): void {
    this.#unverified.setBusy(socket, isBusy);
  }

  destroyAll(): void {
    for (const socket of [...this.#trusted, ...this.#unverified.connections()]) socket.destroy();
  }

  #close(socket: Socket): void {
    this.#options.onClosed(socket.remoteAddress ?? "");
    socket.destroy();
  }
}
