// Bounds the connections to a listener for checks. Trusted callers have a bound of their own, so that unverified peers
// cannot keep them out. Unverified peers share a number of places. However many of them one peer holds, another one
// gets a place, so that the health checks of an orchestrator are answered.
import type { Socket } from "node:net";
import { FairPlaces } from "../core/fair-places.ts";
import type { Replaceable } from "../core/traffic-settings.ts";
import { type CheckSettings, peerKey } from "./check-settings.ts";

/** Also enough for a caller that opens many connections at once before it shows its secret on each of them. */
const maxUnverified = 64;

export interface CallerConnectionsOptions {
  readonly settings: Replaceable<CheckSettings>;
  readonly listener: keyof CheckSettings["maxConnections"];
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
    const settings = this.#options.settings.current;
    const { remoteAddress } = socket;
    if (settings.callers.includeAddress(remoteAddress)) {
      if (this.#isFull()) {
        this.#close(socket);
        return false;
      }
      this.#trusted.add(socket);
    } else {
      const evicted = this.#unverified.take(socket, peerKey(settings, remoteAddress));
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
    if (this.#trusted.has(socket) || this.#isFull() || !this.#unverified.leave(socket)) return;
    this.#trusted.add(socket);
  }

  /** Notes whether the connection has a call: connections of a peer without a call are closed before those with one. */
  setBusy(socket: Socket, isBusy: boolean): void {
    this.#unverified.setBusy(socket, isBusy);
  }

  destroyAll(): void {
    for (const socket of [...this.#trusted, ...this.#unverified.connections()]) socket.destroy();
  }

  #isFull(): boolean {
    const { settings, listener } = this.#options;
    return this.#trusted.size >= settings.current.maxConnections[listener];
  }

  #close(socket: Socket): void {
    this.#options.onClosed(socket.remoteAddress ?? "");
    socket.destroy();
  }
}
