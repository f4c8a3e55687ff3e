// What stands between an accepted socket and the HTTP parser: the bounds on connections, then the PROXY header and the TLS
// handshake, in this order, if the listener is told to want them. The parser sees a connection only when that is done.
import type { Server, Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { ProxyHeaderRefusal } from "../core/proxy-header.ts";
import type { AcceptedSocket } from "../exchange/connection.ts";
import type { ConnectionLimiter } from "./connection-limiter.ts";
import { type Introduction, ProxyHeaders } from "./proxy-headers.ts";
import { TlsHandshakes, type TlsHandshakesOptions } from "./tls-handshakes.ts";

export interface AcceptorOptions {
  /** Whether each connection has to begin with a PROXY header. */
  readonly proxyProtocol: boolean;
  readonly onProxyHeaderRefused: (reason: ProxyHeaderRefusal) => void;
  /** Null: connections are plain. */
  readonly tls: Pick<TlsHandshakesOptions, "certificate" | "http2" | "onFailure"> | null;
  readonly headTimeoutMs: number;
  /** Of an address as the system or a PROXY header spells it. */
  readonly readPeer: (address: string | undefined) => Peer;
}

export type AcceptedHandlers = Readonly<
  Record<"onHttp1" | "onHttp2" | "onPlainHttp", (accepted: AcceptedSocket) => void>
>;

export class Acceptor {
  readonly #options: AcceptorOptions;
  readonly #limiter: ConnectionLimiter;
  readonly #proxyHeaders: ProxyHeaders;
  readonly #handshakes: TlsHandshakes | null;

  constructor(options: AcceptorOptions, limiter: ConnectionLimiter) {
    this.#options = options;
    this.#limiter = limiter;
    const { tls, headTimeoutMs: timeoutMs } = options;
    this.#proxyHeaders = new ProxyHeaders({ timeoutMs, onRefused: options.onProxyHeaderRefused });
    this.#handshakes = tls === null ? null : new TlsHandshakes({ ...tls, timeoutMs });
  }

  /**
   * Accepts what connects to `server`. Calls one of the handlers once for each connection, as if nothing of it had been
   * read: `onHttp2` if it agreed on HTTP/2 in its handshake, `onPlainHttp` if it sent HTTP where TLS is expected.
   */
  acceptOn(server: Server, { onHttp1, onHttp2, onPlainHttp }: AcceptedHandlers): void {
    const own: Introduction = { source: null, byteCount: 0 };
    const begin = (tcp: Socket, { source, byteCount }: Introduction): void => {
      const peer = this.#options.readPeer(source ?? tcp.remoteAddress);
      if (!this.#limiter.admit(tcp, peer)) return;
      if (this.#handshakes === null) {
        onHttp1({ socket: tcp, tcp, peer, headerBytes: byteCount });
        tcp.resume();
      } else {
        // Takes what has been read of the socket by itself, and would lose it if the socket flowed.
        this.#handshakes.begin(tcp, {
          onSecure(socket) {
            const carry = socket.alpnProtocol === "h2" ? onHttp2 : onHttp1;
            carry({ socket, tcp, peer, headerBytes: 0 });
          },
          onPlainHttp: () => onPlainHttp({ socket: tcp, tcp, peer, headerBytes: byteCount }),
        });
      }
    };
    server.on("connection", (tcp) => {
      if (!this.#limiter.accept(tcp)) return;
      if (this.#options.proxyProtocol) this.#proxyHeaders.read(tcp, (introduction) => begin(tcp, introduction));
      else begin(tcp, own);
    });
  }

  /** Those that have not sent a byte wait for nothing that could get lost. */
  endSilent(): void {
    this.#proxyHeaders.endSilent();
    this.#handshakes?.endSilent();
  }

  destroyAll(): void {
    this.#proxyHeaders.destroyAll();
    this.#handshakes?.destroyAll();
  }
}
