// Bounds the connections of clients. Each counts from the moment it is accepted, before a byte is parsed. A connection
// over a bound gets a 503 and is closed; if many are getting one already, it is closed without a response, so that
// refusals use bounded memory.
import type { Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { ConnectionBounds, ConnectionShedReason } from "../core/connection-bounds.ts";
import type { ConnectionTable } from "./connection-table.ts";

export interface ConnectionLimiterOptions {
  readonly bounds: ConnectionBounds;
  readonly connections: ConnectionTable;
  readonly readPeer: (address: string | undefined) => Peer;
  /** Sends a 503. Null: refused connections get no response, because none can precede the TLS handshake. */
  readonly answerOverloaded: ((socket: Socket, peer: Peer) => void) | null;
  readonly onConnectionShed: (reason: ConnectionShedReason) => void;
}

/** Refused connections that are still open so that the client reads the 503 (RFC 9112, 9.6). */
const maxRefused = 64;

/**
 * Connections over the total that are accepted until their peer is known, as long as idle ones can be closed for them.
 */
const maxUnknown = 64;

export class ConnectionLimiter {
  readonly #options: ConnectionLimiterOptions;
  /** Admitted connections with their peer, null until it is known. */
  readonly #admitted = new Map<Socket, Peer | null>();
  /** Admitted connections, by the key of their peer. */
  readonly #counts = new Map<string, number>();
  readonly #refused = new Set<Socket>();

  constructor(options: ConnectionLimiterOptions) {
    this.#options = options;
  }

  /** Open connections, including those whose peer is not known yet. */
  get count(): number {
    return this.#admitted.size;
  }

  /** Counts a connection whose peer may be unknown. Returns false if it is refused and closed. */
  accept(socket: Socket): boolean {
    const { bounds, connections, readPeer } = this.#options;
    if (this.count >= bounds.maxConnections + Math.min(connections.idleCount, maxUnknown)) {
      this.#refuse(socket, readPeer(socket.remoteAddress), "total");
      return false;
    }
    this.#admitted.set(socket, null);
    socket.once("close", () => this.#forget(socket));
    return true;
  }

  /** Admits a connection whose peer is known. A peer over its own limit is refused and evicts nobody. */
  admit(socket: Socket, peer: Peer): boolean {
    const { bounds } = this.#options;
    const count = this.#counts.get(peer.key) ?? 0;
    // A trusted proxy has connections for many clients.
    if (!peer.isTrusted && count >= bounds.maxConnectionsPerPeer) {
      this.#refuse(socket, peer, "per_peer");
      return false;
    }
    if (this.count > bounds.maxConnections && !this.#makeRoom()) {
      this.#refuse(socket, peer, "total");
      return false;
    }
    if (this.#admitted.has(socket)) {
      this.#admitted.set(socket, peer);
      this.#counts.set(peer.key, (this.#counts.get(peer.key) ?? 0) + 1);
    }
    return true;
  }

  destroyRefused(): void {
    for (const socket of this.#refused) socket.destroy();
  }

  /** Closes the connection that has been idle longest: idle connections must not keep new clients out. */
  #makeRoom(): boolean {
    const longest = this.#options.connections.takeIdle();
    if (longest === undefined) return false;
    this.#options.onConnectionShed("idle");
    this.#forget(longest.tcp);
    longest.socket.destroy();
    return true;
  }

  #forget(socket: Socket): void {
    const peer = this.#admitted.get(socket) ?? null;
    this.#admitted.delete(socket);
    if (peer === null) return;
    const left = (this.#counts.get(peer.key) ?? 0) - 1;
    if (left > 0) this.#counts.set(peer.key, left);
    else this.#counts.delete(peer.key);
  }

  #refuse(socket: Socket, peer: Peer, reason: ConnectionShedReason): void {
    this.#options.onConnectionShed(reason);
    this.#forget(socket);
    const { answerOverloaded } = this.#options;
    if (answerOverloaded === null || this.#refused.size >= maxRefused) {
      socket.destroy();
      return;
    }
    this.#refused.add(socket);
    socket.once("close", () => this.#refused.delete(socket));
    answerOverloaded(socket, peer);
  }
}
