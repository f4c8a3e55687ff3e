// Bounds the connections to the admin listener, the requests on each, and the time to read an answer. A new connection
// always gets a place, so that probes are answered. A connection whose call was let in moves to the places of the API, so that
// calls and streams take none from probes and scrapes.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { FairPlaces } from "../core/client-share.ts";
import { ignoreError } from "../core/failure.ts";
import type { Reached } from "./access.ts";

export interface AdminConnectionsOptions {
  /** Peers with the same key share places. */
  readonly peerKey: (address: string | undefined) => string;
  /** Called when a connection is closed to make room for a new one. */
  readonly onClosedForRoom: () => void;
}

/** Scrapers, probes and operators are few, and each connection can hold an unread scrape of 400 KB. */
export const maxAdminConnections = 64;

/** Connections that use the API, in addition to those. One peer gets at most half of them. */
export const maxApiConnections = 64;

/** Scrapers and probes do not pipeline requests. All scrapes that wait are answered in one turn of the event loop. */
const maxPipelined = 2;

/** Prometheus waits 10 s for a scrape by default. Without a bound, a client could read its scrape for days. */
export const answerTimeoutMs = 30_000;

/** Of all connections over the Unix socket. */
const socketPeer = "socket";

export class AdminConnections {
  readonly #options: AdminConnectionsOptions;
  readonly #places = new FairPlaces<Socket>(maxAdminConnections);
  readonly #apiPlaces = new FairPlaces<Socket>(maxApiConnections);
  readonly #accepted = new WeakMap<Socket, Accepted>();

  constructor(options: AdminConnectionsOptions) {
    this.#options = options;
  }

  /** Gives a new connection its place. */
  accept(socket: Socket, { isUnixSocket = false } = {}): void {
    const peer = isUnixSocket ? socketPeer : this.#options.peerKey(socket.remoteAddress);
    this.#take(this.#places, socket, peer);
    const requests = new RequestsInProgress(socket, (isBusy) => {
      for (const places of this.#all) places.setBusy(socket, isBusy);
    });
    this.#accepted.set(socket, { socket, isUnixSocket, peer, requests });
    socket.on("error", ignoreError);
    socket.once("close", () => {
      for (const places of this.#all) places.leave(socket);
      requests.stopTimer();
    });
  }

  /** `secure` carries what the accepted connection `raw` has encrypted. */
  secured(raw: Socket, secure: Socket): void {
    const accepted = this.#accepted.get(raw);
    if (accepted === undefined) return;
    this.#accepted.set(secure, accepted);
    secure.on("error", ignoreError);
  }

  /** Counts a request. Returns false if its connection has too many: then the connection is closed. */
  begin(socket: Socket, response: ServerResponse): boolean {
    return this.#accepted.get(socket)?.requests.begin(response) === true;
  }

  isUnixSocket(socket: Socket): boolean {
    return this.#accepted.get(socket)?.isUnixSocket === true;
  }

  peerKey(socket: Socket): string {
    return this.#accepted.get(socket)?.peer ?? "";
  }

  reached(socket: Socket): Reached {
    const isUnixSocket = this.isUnixSocket(socket);
    const { localAddress: host = "", localPort: port = 0 } = socket;
    return {
      isUnixSocket,
      isTls: "encrypted" in socket,
      peerKey: this.peerKey(socket),
      local: isUnixSocket ? null : { host, port },
    };
  }

  /** Moves a connection that may use the API out of the places of probes and scrapes. */
  moveToApi(socket: Socket): void {
    const accepted = this.#accepted.get(socket);
    if (accepted === undefined || !this.#places.leave(accepted.socket)) return;
    this.#take(this.#apiPlaces, accepted.socket, accepted.peer);
    this.#apiPlaces.setBusy(accepted.socket, true);
  }

  /** Lifts the timeout of the answer in progress, which is a stream. */
  streams(socket: Socket): void {
    this.#accepted.get(socket)?.requests.stopTimer();
  }

  destroyAll(): void {
    for (const places of this.#all) for (const socket of places.connections()) socket.destroy();
  }

  get #all(): readonly FairPlaces<Socket>[] {
    return [this.#places, this.#apiPlaces];
  }

  #take(places: FairPlaces<Socket>, socket: Socket, peer: string): void {
    const evicted = places.take(socket, peer);
    if (evicted === null) return;
    this.#options.onClosedForRoom();
    evicted.destroy();
  }
}

interface Accepted {
  /** The TCP connection, also beneath TLS. */
  readonly socket: Socket;
  readonly isUnixSocket: boolean;
  readonly peer: string;
  readonly requests: RequestsInProgress;
}

/** The requests in progress on one connection. */
class RequestsInProgress {
  readonly #socket: Socket;
  readonly #onBusyChange: (isBusy: boolean) => void;
  #count = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(socket: Socket, onBusyChange: (isBusy: boolean) => void) {
    this.#socket = socket;
    this.#onBusyChange = onBusyChange;
  }

  begin(response: ServerResponse): boolean {
    this.#count += 1;
    if (this.#count > maxPipelined) {
      this.#socket.destroy();
      return false;
    }
    response.once("close", () => this.#end());
    if (this.#count > 1) return true;
    this.#onBusyChange(true);
    this.#timer = setTimeout(() => this.#socket.destroy(), answerTimeoutMs);
    return true;
  }

  stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #end(): void {
    this.#count -= 1;
    if (this.#count > 0) return;
    this.stopTimer();
    this.#onBusyChange(false);
  }
}

// Stops Node's HTTP parser in the middle of a read. One read can contain thousands of pipelined requests, and each
// costs Node 10 µs even if it is dropped. Pausing the parser does not help: it finishes the read first. Therefore the
// last head that should be read is treated as an upgrade, after which the parser stops.

/** What Node returns to llhttp for the head of an upgrade. */
const isUpgrade = 2;

interface Parser {
  /** Called with each head, before the event "request". Node sets it for each connection. */
  onIncoming: (request: IncomingMessage, shouldKeepAlive: boolean) => number;
}

/** Call it after Node's server has begun to read the socket. `isOver` is called with each head. */
export function stopParsingWhen(socket: Socket, isOver: () => boolean): void {
  const parser: unknown = Reflect.get(socket, "parser");
  if (!isParser(parser)) return;
  const onIncoming = parser.onIncoming;
  parser.onIncoming = (request, shouldKeepAlive) => {
    if (!isOver()) return onIncoming(request, shouldKeepAlive);
    // Otherwise Node would release the socket.
    request.upgrade = false;
    return isUpgrade;
  };
}

function isParser(parser: unknown): parser is Parser {
  return (
    typeof parser === "object" && parser !== null && "onIncoming" in parser && typeof parser.onIncoming === "function"
  );
}

declare module "node:http" {
  interface IncomingMessage {
    upgrade?: boolean;
  }
}
