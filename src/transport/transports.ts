// Opens connections with their transports: a connection of HTTP/1 begins raw, and its first packet that is not one
// simple request hands it off to Node's parser; a connection that negotiated HTTP/2 in its TLS handshake uses that.
import type { Server, Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { HeaderList } from "../core/header-list.ts";
import type { LocalReply } from "../core/local-reply.ts";
import type { AcceptedSocket, ConnectionOpener, ConnectionRegistry } from "../exchange/connection.ts";
import { Http2Connection, Http2Shares } from "./http2/http2-connection.ts";
import { NodeHttp1Server } from "./node/node-http1-server.ts";
import { PeerTurns } from "./peer-turns.ts";
import { RawHttp1Connection, type RawHttp1Options } from "./raw/raw-http1-connection.ts";
import { rejectOnSocket } from "./socket-transport.ts";
import type { TransportOptions } from "./transport-options.ts";

export class Transports implements ConnectionOpener {
  readonly #options: TransportOptions;
  #rawOptions: RawHttp1Options;
  readonly #connections: ConnectionRegistry;
  readonly #node: NodeHttp1Server;
  readonly #http2Shares: Http2Shares;
  readonly #turns = new PeerTurns();

  constructor(options: TransportOptions, connections: ConnectionRegistry) {
    this.#options = options;
    this.#connections = connections;
    this.#node = new NodeHttp1Server(options);
    this.#http2Shares = new Http2Shares(options);
    this.#rawOptions = this.#makeRawOptions();
  }

  get server(): Server {
    return this.#node.server;
  }

  openHttp1(accepted: AcceptedSocket): void {
    this.#share(accepted);
    if (this.#rawOptions.accepted !== this.#options.settings.current) this.#rawOptions = this.#makeRawOptions();
    this.#connections.add(new RawHttp1Connection(accepted, this.#rawOptions));
  }

  openHttp2(accepted: AcceptedSocket): void {
    this.#share(accepted);
    this.#connections.add(new Http2Connection(accepted, this.#options, this.#http2Shares));
  }

  reject(socket: Socket, peer: Peer, reply: LocalReply): void {
    rejectOnSocket(socket, peer, reply, this.#options.runtime);
  }

  /** A trusted proxy has connections for many clients. */
  #share({ socket, peer }: AcceptedSocket): void {
    if (!peer.isTrusted) this.#turns.add(socket, peer.key);
  }

  #makeRawOptions(): RawHttp1Options {
    const accepted = this.#options.settings.current;
    return {
      ...this.#options,
      accepted,
      keepAliveHeaders: keepAliveHeaders(accepted.keepAliveTimeoutMs),
      handOff: (connection, socket, requests) => {
        this.#connections.remove(connection);
        this.#connections.add(this.#node.adopt(socket, requests));
      },
    };
  }
}

/** The same headers as in Node's own responses. */
function keepAliveHeaders(timeoutMs: number): HeaderList {
  const seconds = Math.floor(timeoutMs / 1000);
  return ["Connection", "keep-alive", ...(seconds > 0 ? ["Keep-Alive", `timeout=${seconds}`] : [])];
}
