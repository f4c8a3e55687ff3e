// What stands between an accepted socket and the HTTP parser: the bounds on connections, and the PROXY header, if the
// listener is told to want one. The parser sees a connection only when that is done.
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { ProxyHeaderRefusal } from "../core/proxy-header.ts";
import type { Intake } from "./intake.ts";
import { type Introduction, ProxyHeaders } from "./proxy-headers.ts";

export interface AcceptorOptions {
  /** Whether each connection has to begin with a PROXY header. */
  readonly proxyProtocol: boolean;
  readonly onProxyHeaderRefused: (reason: ProxyHeaderRefusal) => void;
  readonly headTimeoutMs: number;
  /** Of an address as the system or a PROXY header spells it. */
  readonly readPeer: (address: string | undefined) => Peer;
}

export class Acceptor {
  readonly #options: AcceptorOptions;
  readonly #intake: Intake;
  readonly #proxyHeaders: ProxyHeaders;

  constructor(options: AcceptorOptions, intake: Intake) {
    this.#options = options;
    this.#intake = intake;
    this.#proxyHeaders = new ProxyHeaders({
      timeoutMs: options.headTimeoutMs,
      onRefused: options.onProxyHeaderRefused,
    });
  }

  /**
   * `onConnection` is called once for each connection, when the parser has it and has read nothing of it. `headerBytes`
   * have been read that are no HTTP.
   */
  acceptOn(server: Server, onConnection: (socket: Socket, peer: Peer, headerBytes: number) => void): void {
    // Node's own listeners, which begin to parse, wait for the rest. The listening server stays the one that is closed.
    const parse = server.listeners("connection");
    server.removeAllListeners("connection");
    const own: Introduction = { source: null, byteCount: 0 };
    const begin = (socket: Socket, { source, byteCount }: Introduction): void => {
      const peer = this.#options.readPeer(source ?? socket.remoteAddress);
      if (!this.#intake.introduce(socket, peer)) return;
      for (const listener of parse) listener.call(server, socket);
      onConnection(socket, peer, byteCount);
    };
    server.on("connection", (socket) => {
      if (!this.#intake.accept(socket)) return;
      if (this.#options.proxyProtocol) this.#proxyHeaders.read(socket, (introduction) => begin(socket, introduction));
      else begin(socket, own);
    });
  }

  /** Those that have not sent a byte wait for nothing that could get lost. */
  endSilent(): void {
    this.#proxyHeaders.endSilent();
  }

  destroyAll(): void {
    this.#proxyHeaders.destroyAll();
  }
}
