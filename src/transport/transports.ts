// Opens connections with their transports: a connection of HTTP/1 begins raw, and its first head that is not simple
// hands it off to Node's parser; a connection that negotiated HTTP/2 in its TLS handshake uses that.
import type { Server, Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import { inOnePiece } from "../core/header-lines.ts";
import type { LocalReply } from "../core/local-reply.ts";
import type { AcceptedSocket, ClientConnection, ConnectionOpener, ConnectionRegistry } from "../exchange/connection.ts";
import { DeferredWrites } from "../exchange/deferred-writes.ts";
import { NodeHttp1Server } from "./node/node-http1-server.ts";
import { type PeerTurn, PeerTurns } from "./peer-turns.ts";
import { RawHttp1Connection, type RawHttp1Options } from "./raw/raw-http1-connection.ts";
import { RequestReader } from "./raw/request-reader.ts";
import { rejectOnSocket } from "./socket-transport.ts";
import type { TransportOptions } from "./transport-options.ts";

/** Opens connections of HTTP/2. `turn`: null if the peer may have all its connections read. */
export type OpenHttp2 = (accepted: AcceptedSocket, turn: PeerTurn | null) => ClientConnection;

export class Transports implements ConnectionOpener {
  readonly #options: TransportOptions;
  #rawOptions: RawHttp1Options;
  readonly #connections: ConnectionRegistry;
  readonly #node: NodeHttp1Server;
  readonly #openHttp2: OpenHttp2 | null;
  readonly #turns = new PeerTurns();
  readonly #deferredWrites = new DeferredWrites();
  /** Reads the first head of each connection: clients often open one connection after the other. */
  readonly #firstReader = new RequestReader();

  /** `openHttp2` is null without TLS, which negotiates it: what it needs is loaded only with TLS. */
  constructor(options: TransportOptions, connections: ConnectionRegistry, openHttp2: OpenHttp2 | null = null) {
    this.#options = options;
    this.#connections = connections;
    this.#node = new NodeHttp1Server(options);
    this.#openHttp2 = openHttp2;
    this.#rawOptions = this.#makeRawOptions();
  }

  get server(): Server {
    return this.#node.server;
  }

  openHttp1(accepted: AcceptedSocket): void {
    if (this.#rawOptions.accepted !== this.#options.settings.current) this.#rawOptions = this.#makeRawOptions();
    this.#connections.add(new RawHttp1Connection(accepted, this.#rawOptions, this.#turnOf(accepted)));
  }

  openHttp2(accepted: AcceptedSocket): void {
    if (this.#openHttp2 === null) throw new Error("a listener without TLS negotiates no HTTP/2");
    this.#connections.add(this.#openHttp2(accepted, this.#turnOf(accepted)));
  }

  reject(socket: Socket, peer: Peer, reply: LocalReply): void {
    rejectOnSocket(socket, peer, reply, this.#options.runtime);
  }

  /** A trusted proxy has connections for many clients. */
  #turnOf({ socket, peer }: AcceptedSocket): PeerTurn | null {
    return peer.isTrusted ? null : this.#turns.add(socket, peer.key);
  }

  #makeRawOptions(): RawHttp1Options {
    const accepted = this.#options.settings.current;
    return {
      ...this.#options,
      accepted,
      firstReader: this.#firstReader,
      deferredWrites: this.#deferredWrites,
      keepAliveEnd: keepAliveEnd(accepted.keepAliveTimeoutMs),
      handOff: (connection, socket, requests) => {
        connection.place?.leave();
        this.#connections.add(this.#node.adopt(socket, requests));
      },
    };
  }
}

/** The same headers as in Node's own responses, and the empty line. */
function keepAliveEnd(timeoutMs: number): string {
  const seconds = Math.floor(timeoutMs / 1000);
  return inOnePiece(`Connection: keep-alive\r\n${seconds > 0 ? `Keep-Alive: timeout=${seconds}\r\n` : ""}\r\n`);
}
