// Bounds the connections to a listener for checks. Trusted callers have a bound of their own, so that unverified peers
// cannot keep them out; one caller gets at most as many as are free. Unverified peers share a number of places. However
// many of them one peer holds, a peer without one gets a place, so that health checks of an orchestrator are answered.
import type { Socket } from "node:net";
import { readPeer } from "../core/client-address.ts";
import { clientShare, FairPlaces } from "../core/client-share.ts";
import type { CheckRefusal } from "../core/connection-ends.ts";
import type { HostPort } from "../core/ip-address.ts";
import type { Replaceable } from "../core/settings.ts";
import type { TextWrites } from "../exchange/socket-writes.ts";
import type { SharedReads } from "../exchange/sockets.ts";
import type { Checks } from "./check.ts";
import type { CheckSettings } from "./trusted-callers.ts";

/** What each listener for checks is opened with. Port 0 picks a free one. */
export interface CheckListenerOptions extends HostPort {
  /** Whether other threads open the same port. */
  readonly isPortShared: boolean;
  readonly settings: Replaceable<CheckSettings>;
  readonly checks: Checks;
  /** Null: sockets are read as streams. */
  readonly reads: SharedReads | null;
  readonly textWrites: TextWrites;
  /** `caller` is an address. */
  readonly onRefused: (reason: CheckRefusal, caller: string, detail: string | null) => void;
  readonly onFailure: (error: unknown) => void;
}

/** One caller gets half of them: enough to open many connections at once before it shows its secret on each. */
const maxUnverified = 128;

export class CallerConnections {
  readonly #settings: Replaceable<CheckSettings>;
  readonly #onRefused: CheckListenerOptions["onRefused"];
  readonly #listener: keyof CheckSettings["maxConnections"];
  /** Each with the key of its peer. */
  readonly #trusted = new Map<Socket, string>();
  readonly #trustedByPeer = new Map<string, number>();
  readonly #unverified = new FairPlaces<Socket>(maxUnverified);

  constructor({ settings, onRefused }: CheckListenerOptions, listener: keyof CheckSettings["maxConnections"]) {
    this.#settings = settings;
    this.#onRefused = onRefused;
    this.#listener = listener;
  }

  /** Returns false if the connection exceeds its bound and was closed. */
  admit(socket: Socket): boolean {
    const peer = this.peerKey(socket);
    if (this.#settings.current.callers.includeAddress(socket.remoteAddress)) {
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

  /** Peers with the same key share places, the memory of messages and, unless they are trusted, a budget of frames. */
  peerKey({ remoteAddress }: Socket): string {
    return readPeer(remoteAddress, this.#settings.current.clientAddress).key;
  }

  /** Counts a connection that has shown a secret among the trusted ones, unless its caller has used up its share. */
  promote(socket: Socket): void {
    if (this.#trusted.has(socket)) return;
    const peer = this.peerKey(socket);
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
    const max = this.#settings.current.maxConnections[this.#listener];
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
    this.#onRefused("overloaded", socket.remoteAddress ?? "", null);
    socket.destroy();
  }
}
