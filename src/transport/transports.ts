// Opens connections with their transports: HTTP/1, or HTTP/2 if the TLS handshake negotiated it.
import { createServer, type Server, type Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import { inOnePiece } from "../core/headers.ts";
import type { LocalReply } from "../core/local-reply.ts";
import {
  type AcceptedSocket,
  type ClientConnection,
  type ConnectionOpener,
  type ConnectionRegistry,
  Portions,
} from "../exchange/connection.ts";
import { type PeerTurn, PeerTurns } from "../exchange/peer-turns.ts";
import { DeferredWrites } from "../exchange/socket-writes.ts";
import { Http1Connection, type Http1Options } from "./http1/http1-connection.ts";
import { RequestReader } from "./http1/request-reader.ts";
import { rejectOnSocket } from "./socket-transport.ts";
import type { TransportOptions } from "./transport-options.ts";

/** Opens connections of HTTP/2. */
export type OpenHttp2 = (accepted: AcceptedSocket, turn: PeerTurn) => ClientConnection;

export class Transports implements ConnectionOpener {
  /** A connection itself says what the end of the client's side means. */
  readonly server: Server = createServer({ allowHalfOpen: true, noDelay: true });
  readonly #options: TransportOptions;
  #http1Options: Http1Options;
  readonly #connections: ConnectionRegistry;
  readonly #openHttp2: OpenHttp2 | null;
  readonly #turns = new PeerTurns();
  readonly #deferredWrites = new DeferredWrites();
  /** Read the first head of each connection: clients often open one connection after the other. */
  readonly #firstReaders = { http: new RequestReader(), https: new RequestReader() };
  /** Connections whose head took too long: thousands may be late in one turn. */
  readonly #lateHeads = new Portions<Http1Connection>((connection) => connection.refuseLateHead());

  /** `openHttp2` is null without TLS, which negotiates it: what it needs is loaded only with TLS. */
  constructor(options: TransportOptions, connections: ConnectionRegistry, openHttp2: OpenHttp2 | null = null) {
    this.#options = options;
    this.#connections = connections;
    this.#openHttp2 = openHttp2;
    this.#http1Options = this.#makeHttp1Options();
  }

  openHttp1(accepted: AcceptedSocket): void {
    if (this.#http1Options.accepted !== this.#options.settings.current) this.#http1Options = this.#makeHttp1Options();
    this.#connections.add(new Http1Connection(accepted, this.#http1Options, this.#turnOf(accepted)));
  }

  openHttp2(accepted: AcceptedSocket): void {
    if (this.#openHttp2 === null) throw new Error("a listener without TLS negotiates no HTTP/2");
    this.#connections.add(this.#openHttp2(accepted, this.#turnOf(accepted)));
  }

  reject(socket: Socket, peer: Peer, reply: LocalReply): void {
    rejectOnSocket(socket, peer, reply, this.#options.runtime);
  }

  #turnOf({ socket, peer }: AcceptedSocket): PeerTurn {
    return this.#turns.add(socket, peer.isTrusted ? null : peer.key);
  }

  #makeHttp1Options(): Http1Options {
    const accepted = this.#options.settings.current;
    return {
      ...this.#options,
      accepted,
      connections: this.#connections,
      firstReaders: this.#firstReaders,
      deferredWrites: this.#deferredWrites,
      keepAliveEnd: keepAliveEnd(accepted.keepAliveTimeoutMs),
      lateHeads: this.#lateHeads,
    };
  }
}

/** With the empty line. */
function keepAliveEnd(timeoutMs: number): string {
  const seconds = Math.floor(timeoutMs / 1000);
  return inOnePiece(`Connection: keep-alive\r\n${seconds > 0 ? `Keep-Alive: timeout=${seconds}\r\n` : ""}\r\n`);
}
