// A client's connection, as the listener has it: accepted, counted, idle or busy, ended. What it speaks is known to its
// transport alone.
import type { Server, Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { LocalReply } from "../core/local-reply.ts";

export interface AcceptedSocket {
  /** What HTTP is read from and written to. */
  readonly socket: Socket;
  /** The TCP connection beneath it; the same one without TLS. */
  readonly tcp: Socket;
  readonly peer: Peer;
  /** Bytes read from `socket` that are no HTTP. */
  readonly headerBytes: number;
}

export interface ClientConnection {
  readonly socket: Socket;
  readonly tcp: Socket;
  /** How long it may be without a request. */
  readonly idleTimeoutMs: number;
  /** Requests that are being decided or answered. */
  readonly activeCount: number;
  /** Set by the listener; called with false when a first request begins and with true when the last one is over. */
  onIdleChange: (isIdle: boolean) => void;
  /** Ends it now if no request is under way, else behind what is. */
  endWhenIdle(): void;
  /** Closes it now; the exchanges on it are over when this returns. */
  abort(): void;
}

/** The connections that are open, as a transport has to tell of them. */
export interface ConnectionRegistry {
  add(connection: ClientConnection): void;
  /** Forgets a connection whose socket another one is about to take over. */
  remove(connection: ClientConnection): void;
}

/** Makes connections of accepted sockets, by what they speak. */
export interface ConnectionOpener {
  /** The server that listens. */
  readonly server: Server;
  openHttp1(accepted: AcceptedSocket): void;
  openHttp2(accepted: AcceptedSocket): void;
  /** Answers on a plain socket that is no connection of ours, and ends it. */
  reject(socket: Socket, peer: Peer, reply: LocalReply): void;
}
