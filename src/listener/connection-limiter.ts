// The door: every connection is counted from the moment it is accepted, before a byte of it is parsed. Over a bound it
// is answered and closed, or, if many are being answered so already, closed without a word: refusing keeps no state
// that grows.
import type { Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { ConnectionBounds, ConnectionShedReason } from "../core/connection-bounds.ts";
import { localReplies } from "../core/local-reply.ts";
import type { RawAnswers } from "../exchange/raw-answer.ts";
import { Connection } from "../transport/node/node-http1-connection.ts";
import type { ConnectionTable } from "./connection-table.ts";

export interface ConnectionLimiterOptions {
  readonly bounds: ConnectionBounds;
  readonly connections: ConnectionTable;
  readonly readPeer: (address: string | undefined) => Peer;
  /** Null: refusals are closed without a word, because nothing is said before the TLS handshake. */
  readonly answers: RawAnswers | null;
  readonly onConnectionShed: (reason: ConnectionShedReason) => void;
}

/** Refused connections that are still open, so that the answer is read before the close (RFC 9112, 9.6). */
const maxLeaving = 64;

/** Connections over the total that may say who they are, as long as others could make room for them. */
const maxUnknown = 64;

export class ConnectionLimiter {
  readonly #options: ConnectionLimiterOptions;
  /** With the peer, once it is known. */
  readonly #inside = new Map<Socket, Peer | null>();
  /** Connections inside, by the key of their peer. */
  readonly #counts = new Map<string, number>();
  readonly #leaving = new Set<Socket>();

  constructor(options: ConnectionLimiterOptions) {
    this.#options = options;
  }

  /** Open connections, those included that have not said yet who they are. */
  get count(): number {
    return this.#inside.size;
  }

  /** Its peer need not be known yet. False if it is refused, which is all that happens to it then. */
  accept(socket: Socket): boolean {
    const { bounds, connections, readPeer } = this.#options;
    if (this.count >= bounds.maxConnections + Math.min(connections.idleCount, maxUnknown)) {
      this.#refuse(socket, readPeer(socket.remoteAddress), "total");
      return false;
    }
    this.#inside.set(socket, null);
    socket.once("close", () => this.#leave(socket));
    return true;
  }

  /** The same once its peer is known. Whoever has too many itself takes nobody's place. */
  introduce(socket: Socket, peer: Peer): boolean {
    const { bounds } = this.#options;
    const count = this.#counts.get(peer.key) ?? 0;
    // Many clients may stand behind a trusted proxy.
    if (!peer.isTrusted && count >= bounds.maxConnectionsPerPeer) {
      this.#refuse(socket, peer, "per_peer");
      return false;
    }
    if (this.count > bounds.maxConnections && !this.#makeRoom()) {
      this.#refuse(socket, peer, "total");
      return false;
    }
    if (this.#inside.has(socket)) {
      this.#inside.set(socket, peer);
      this.#counts.set(peer.key, (this.#counts.get(peer.key) ?? 0) + 1);
    }
    return true;
  }

  destroyLeaving(): void {
    for (const socket of this.#leaving) socket.destroy();
  }

  /** A house full of connections that ask for nothing, or never finish asking, must not lock anyone out. */
  #makeRoom(): boolean {
    const longest = this.#options.connections.takeIdle();
    if (longest === undefined) return false;
    this.#options.onConnectionShed("idle");
    this.#leave(longest.tcp);
    longest.socket.destroy();
    return true;
  }

  #leave(socket: Socket): void {
    const peer = this.#inside.get(socket) ?? null;
    this.#inside.delete(socket);
    if (peer === null) return;
    const left = (this.#counts.get(peer.key) ?? 0) - 1;
    if (left > 0) this.#counts.set(peer.key, left);
    else this.#counts.delete(peer.key);
  }

  #refuse(socket: Socket, peer: Peer, reason: ConnectionShedReason): void {
    this.#options.onConnectionShed(reason);
    this.#leave(socket);
    const { answers } = this.#options;
    if (answers === null || this.#leaving.size >= maxLeaving) {
      socket.destroy();
      return;
    }
    this.#leaving.add(socket);
    socket.once("close", () => this.#leaving.delete(socket));
    answers.answer(new Connection({ socket, tcp: socket, peer, headerBytes: 0 }), localReplies.overloaded);
  }
}
