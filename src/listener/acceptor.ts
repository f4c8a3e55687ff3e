// Takes an accepted socket to its protocol: the bounds on connections, then the PROXY header and the TLS handshake, in this
// order, where they are configured. The HTTP parser sees a connection only when that is complete.
import type { Server, Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { CompleteProxyHeader, ProxyHeaderRefusal } from "../core/proxy-header.ts";
import type { AcceptedSocket } from "../exchange/connection.ts";
import type { ConnectionLimiter } from "./connection-limiter.ts";
import { takeProxyHeader } from "./proxy-header.ts";
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
  readonly #handshakes: TlsHandshakes | null;
  /** Connections whose PROXY header or handshake is not complete. */
  readonly #waiting = new Set<Socket>();

  constructor(options: AcceptorOptions, limiter: ConnectionLimiter) {
    this.#options = options;
    this.#limiter = limiter;
    const { tls, headTimeoutMs: timeoutMs } = options;
    this.#handshakes = tls === null ? null : new TlsHandshakes({ ...tls, timeoutMs });
  }

  /**
   * Accepts what connects to `server`. Calls one of the handlers once for each connection, as if nothing of it had been
   * read: `onHttp2` if it agreed on HTTP/2 in its handshake, `onPlainHttp` if it sent HTTP where TLS is expected.
   */
  acceptOn(server: Server, handlers: AcceptedHandlers): void {
    const { proxyProtocol, headTimeoutMs, onProxyHeaderRefused: onRefused } = this.#options;
    const mayWait = proxyProtocol || this.#handshakes !== null;
    server.on("connection", (tcp) => {
      if (!this.#limiter.accept(tcp)) return;
      if (mayWait) {
        this.#waiting.add(tcp);
        tcp.once("close", () => this.#waiting.delete(tcp));
      }
      const onHeader = (header: ProxiedPeer): void => this.#begin(tcp, header, handlers);
      if (proxyProtocol) takeProxyHeader(tcp, headTimeoutMs, { onHeader, onRefused });
      else onHeader(noHeader);
    });
  }

  /** Closes the connections that have not sent a byte: no request of theirs can get lost. */
  endSilent(): void {
    for (const tcp of this.#waiting) if (tcp.bytesRead === 0) tcp.destroy();
  }

  destroyAll(): void {
    for (const tcp of this.#waiting) tcp.destroy();
  }

  #begin(tcp: Socket, { source, byteCount }: ProxiedPeer, { onHttp1, onHttp2, onPlainHttp }: AcceptedHandlers): void {
    const peer = this.#options.readPeer(source ?? tcp.remoteAddress);
    if (!this.#limiter.admit(tcp, peer)) return;
    if (this.#handshakes === null) {
      this.#waiting.delete(tcp);
      onHttp1({ socket: tcp, tcp, peer, headerBytes: byteCount });
      tcp.resume();
      return;
    }
    this.#handshakes.begin(tcp, {
      onSecure: (socket) => {
        this.#waiting.delete(tcp);
        const open = socket.alpnProtocol === "h2" ? onHttp2 : onHttp1;
        open({ socket, tcp, peer, headerBytes: 0 });
      },
      // It stays among those that wait, because it is only answered and closed.
      onPlainHttp: () => onPlainHttp({ socket: tcp, tcp, peer, headerBytes: byteCount }),
    });
  }
}

type ProxiedPeer = Pick<CompleteProxyHeader, "source" | "byteCount">;

const noHeader: ProxiedPeer = { source: null, byteCount: 0 };
