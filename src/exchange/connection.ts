// A client's connection as the listener handles it, independent of its protocol: accepted, counted, idle or busy,
// closed.
import type { Server, Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import { type LocalReply, shareReply } from "../core/local-reply.ts";
import type { Exchange } from "./exchange.ts";

export interface AcceptedSocket {
  /** What HTTP is read from and written to. */
  readonly socket: Socket;
  /** The TCP connection beneath it; the same one without TLS. */
  readonly tcp: Socket;
  readonly peer: Peer;
}

export interface ClientConnection {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  /** Maximum time without a request. */
  readonly idleTimeoutMs: number;
  /** Requests in progress. */
  readonly activeCount: number;
  /** Set while it is registered. */
  place: ConnectionPlace | null;
  /** Closes the connection after the requests in progress. */
  endWhenIdle(): void;
  /** Closes the connection, which has been idle for its maximum time. */
  endIdle(): void;
  /** Called regularly. Closes the connection if a request makes no progress, unless timers of its own do that. */
  endStalled(nowMs: number): void;
  /** Called regularly after some idle time. Gives up memory that only makes the next request cheaper. */
  forgetHead(): void;
  /** Closes the connection at once. Its exchanges have ended when this returns. */
  abort(): void;
}

/** The open connections. */
export interface ConnectionRegistry {
  /** Gives the connection its place. */
  add(connection: ClientConnection): void;
}

/** The place of a connection among the open ones. */
export interface ConnectionPlace {
  /**
   * A request begins. Returns false if the connection was idle and stays so, because its peer has as many others with a
   * request as it may have.
   */
  begin(): boolean;
  /** The last request has ended. `nowMs`: the clock, if it was just read. */
  end(nowMs?: number): void;
  /** The connection is closed, or another one takes its socket over. */
  leave(): void;
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

/**
 * Starts an exchange on its connection. If its peer has as many connections with a request as it may have, refuses it: then
 * the connection stays idle, and may be closed for a new one.
 */
export function startOn(place: ConnectionPlace | null, exchange: Exchange): void {
  if (place === null || place.begin()) exchange.start();
  else exchange.reject(shareReply("client_connections"));
}
