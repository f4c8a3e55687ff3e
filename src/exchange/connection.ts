// A client's connection as the listener handles it, independent of its protocol: accepted, counted, idle or busy,
// closed.
import type { Server, Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { LocalReply } from "../core/local-reply.ts";

export interface AcceptedSocket {
  /** What HTTP is read from and written to. */
  readonly socket: Socket;
  /** The TCP connection beneath it; the same one without TLS. */
  readonly tcp: Socket;
  readonly peer: Peer;
  /** Bytes that were read from `socket` before the first byte of HTTP. */
  readonly headerBytes: number;
}

export interface ClientConnection {
  readonly socket: Socket;
  readonly tcp: Socket;
  /** Maximum time without a request. */
  readonly idleTimeoutMs: number;
  /** Requests in progress. */
  readonly activeCount: number;
  /** Set by the listener; called with false when the first request begins and with true when the last one has ended. */
  onIdleChange: (isIdle: boolean) => void;
  /** Closes the connection after the requests in progress. */
  endWhenIdle(): void;
  /** Closes the connection at once. Its exchanges have ended when this returns. */
  abort(): void;
}

/** The open connections. */
export interface ConnectionRegistry {
  add(connection: ClientConnection): void;
  /** Removes a connection whose socket another one takes over. */
  remove(connection: ClientConnection): void;
}

/** Opens connections on accepted sockets. */
export interface ConnectionOpener {
  /** Listens for connections and does not handle them. */
  readonly server: Server;
  openHttp1(accepted: AcceptedSocket): void;
  openHttp2(accepted: AcceptedSocket): void;
  /** Replies on a plain socket without a connection, and closes it. */
  reject(socket: Socket, peer: Peer, reply: LocalReply): void;
}
