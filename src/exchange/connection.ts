// A client's connection as the listener handles it, independent of its protocol: accepted, counted, idle or busy,
// closed.
import type { Server, Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { LocalReply } from "../core/local-reply.ts";
import type { Scheme } from "../core/settings.ts";

export interface AcceptedSocket {
  /** What HTTP is read from and written to. */
  readonly socket: Socket;
  /** The TCP connection beneath it; the same one without TLS. */
  readonly tcp: Socket;
  readonly peer: Peer;
  /** As the client used it, which a PROXY header may tell. */
  readonly scheme: Scheme;
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
  /** True: every response from now on is the last on its connection. */
  readonly isDraining: boolean;
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

// Work on many items in portions: between two portions the event loop handles other events. Without this, closing
// thousands of connections at once would block it for hundreds of milliseconds.

/** Closing a connection takes about 50 µs, so a portion takes about 5 ms. */
const portion = 100;

/**
 * Visits each item, the first portion before it returns. Resolves after the last item. A Map or Set may change in between:
 * an item that is deleted before its turn is not visited, and an item that is added is visited.
 */
export async function inPortions<T>(items: Iterable<T>, visit: (item: T) => void): Promise<void> {
  let left = portion;
  for (const item of items) {
    if (left === 0) {
      await new Promise((resolve) => void setImmediate(resolve));
      left = portion;
    }
    left -= 1;
    visit(item);
  }
}

/** Visits items that arrive one by one in portions. */
export class Portions<T> {
  readonly #visit: (item: T) => void;
  readonly #items = new Set<T>();

  /** `visit` must not throw. */
  constructor(visit: (item: T) => void) {
    this.#visit = visit;
  }

  /** Visits the item in a later turn. */
  add(item: T): void {
    this.#items.add(item);
    if (this.#items.size === 1) setImmediate(() => this.#visitAll());
  }

  #visitAll(): Promise<void> {
    return inPortions(this.#items, (item) => {
      this.#items.delete(item);
      this.#visit(item);
    });
  }
}
