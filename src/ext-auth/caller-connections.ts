// Bounds the connections to a listener for checks. Trusted callers have a bound of their own, so that unverified peers
// cannot keep them out; one caller gets at most as many as are free. Unverified peers share a number of places. However
// many of them one peer holds, a peer without one gets a place, so that health checks of an orchestrator are answered.
import type { Socket } from "node:net";
import { clientShare, FairPlaces } from "../core/client-share.ts";
import type { Replaceable } from "../core/settings.ts";
import { type CheckSettings, peerKey } from "./trusted-callers.ts";

/** One caller gets half of them: enough to open many connections at once before it shows its secret on each. */
const maxUnverified = 128;

interface CallerConnectionsOptions {
  readonly settings: Replaceable<CheckSettings>;
  readonly listener: keyof CheckSettings["maxConnections"];
  /** A connection of this address exceeded a bound and was closed. */
  readonly onClosed: (address: string) => void;
}

export class CallerConnections {
  readonly #options: CallerConnectionsOptions;
  /** Each with the key of its peer. */
  readonly #trusted = new Map<Socket, string>();
  readonly #trustedByPeer = new Map<string, number>();
  readonly #unverified = new FairPlaces<Socket>(maxUnverified);

  constructor(options: CallerConnectionsOptions) {
    this.#options = options;
  }

  /** Returns false if the connection exceeds its bound and was closed. */
  add(socket: Socket): boolean {
    const settings = this.#options.settings.current;
    const { remoteAddress } = socket;
    const peer = peerKey(settings, remoteAddress);
    if (settings.callers.includeAddress(remoteAddress)) {
      if (!this.#hasShareLeft(peer)) {
        this.#close(socket);
        return false;
      }
      this.#trust(socket, peer);
    } else {
      const evicted = this.#unverified.take(socket, peer);
      if (evicted !== null) this.#close(evicted);
    }
    socket.once("close", () => {
      this.#distrust(socket);
      this.#unverified.leave(socket);
    });
    return true;
  }

  isTrusted(socket: Socket): boolean {
    return this.#trusted.has(socket);
  }

  /** Counts a connection that has shown a secret among the trusted ones, unless its caller has used up its share. */
  promote(socket: Socket): void {
    if (this.#trusted.has(socket)) return;
    const peer = peerKey(this.#options.settings.current, socket.remoteAddress);
    if (this.#hasShareLeft(peer) && this.#unverified.leave(socket)) this.#trust(socket, peer);
  }

  /** Notes whether the connection has a call: connections of a peer without a call are closed before those with one. */
  setBusy(socket: Socket, isBusy: boolean): void {
    this.#unverified.setBusy(socket, isBusy);
  }

  destroyAll(): void {
    for (const socket of [...this.#trusted.keys(), ...this.#unverified.connections()]) socket.destroy();
  }

  #hasShareLeft(peer: string): boolean {
    const { settings, listener } = this.#options;
    const max = settings.current.maxConnections[listener];
    return (this.#trustedByPeer.get(peer) ?? 0) < clientShare(max - this.#trusted.size, max);
  }

  #trust(socket: Socket, peer: string): void {
    this.#trusted.set(socket, peer);
    this.#trustedByPeer.set(peer, (this.#trustedByPeer.get(peer) ?? 0) + 1);
  }

  #distrust(socket: Socket): void {
    const peer = this.#trusted.get(socket);
    if (peer === undefined) return;
    this.#trusted.delete(socket);
    const left = (this.#trustedByPeer.get(peer) ?? 0) - 1;
    if (left > 0) this.#trustedByPeer.set(peer, left);
    else this.#trustedByPeer.delete(peer);
  }

  #close(socket: Socket): void {
    this.#options.onClosed(socket.remoteAddress ?? "");
    socket.destroy();
  }
}
