// What stands between an accepted socket and the HTTP parser: the PROXY header, if the listener is told to want one.
// The parser sees a connection only when that is done.
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { ProxyHeaderRefusal } from "../core/proxy-header.ts";
import { type Introduction, ProxyHeaders } from "./proxy-headers.ts";

export interface AcceptorOptions {
  /** Whether each connection has to begin with a PROXY header. */
  readonly proxyProtocol: boolean;
  readonly onProxyHeaderRefused: (reason: ProxyHeaderRefusal) => void;
  readonly headTimeoutMs: number;
}

export class Acceptor {
  readonly #options: AcceptorOptions;
  readonly #proxyHeaders: ProxyHeaders;

  constructor(options: AcceptorOptions) {
    this.#options = options;
    this.#proxyHeaders = new ProxyHeaders({
      timeoutMs: options.headTimeoutMs,
      onRefused: options.onProxyHeaderRefused,
    });
  }

  /** Connections that are not shown to the parser yet. */
  get waitingCount(): number {
    return this.#proxyHeaders.waitingCount;
  }

  /** `onConnection` is called once for each connection, when the parser has it and has read nothing of it. */
  acceptOn(server: Server, onConnection: (socket: Socket, introduction: Introduction) => void): void {
    if (!this.#options.proxyProtocol) {
      const own: Introduction = { source: null, byteCount: 0 };
      server.on("connection", (socket) => onConnection(socket, own));
      return;
    }
    // Node's own listeners, which begin to parse, wait for the header. The listening server stays the one that is
    // closed.
    const parse = server.listeners("connection");
    server.removeAllListeners("connection");
    server.on("connection", (socket) =>
      this.#proxyHeaders.read(socket, (introduction) => {
        for (const listener of parse) listener.call(server, socket);
        onConnection(socket, introduction);
      }),
    );
  }

  /** Those that have not sent a byte wait for nothing that could get lost. */
  endSilent(): void {
    this.#proxyHeaders.endSilent();
  }

  destroyAll(): void {
    this.#proxyHeaders.destroyAll();
  }
}
