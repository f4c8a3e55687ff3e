// Opens accepted sockets as connections: checks the bounds on connections, then reads the PROXY header and completes
// the TLS handshake, in this order, where they are configured. The HTTP parser sees a connection only after that.
import type { Socket } from "node:net";
import { type Peer, readPeer } from "../core/client-address.ts";
import type { ProxyHeaderRefusal } from "../core/connection-ends.ts";
import { localReplies } from "../core/local-reply.ts";
import type { Replaceable, TrafficSettings } from "../core/settings.ts";
import { type ConnectionOpener, inPortions } from "../exchange/connection.ts";
import type { ConnectionLimiter } from "./connection-limiter.ts";
import { type CompleteProxyHeader, takeProxyHeader } from "./proxy-header.ts";
import type { TlsHandshakes } from "./tls-handshakes.ts";

export interface AcceptorOptions {
  readonly settings: Replaceable<TrafficSettings>;
  /** Whether each connection has to begin with a PROXY header. */
  readonly proxyProtocol: boolean;
  readonly onProxyHeaderRefused: (reason: ProxyHeaderRefusal) => void;
  /** Null: connections are plain. */
  readonly handshakes: TlsHandshakes | null;
}

/** One client could fill the memory with addresses of its network. */
const maxKnownPeers = 1_024;

export class Acceptor {
  readonly #options: AcceptorOptions;
  readonly #limiter: ConnectionLimiter;
  readonly #opener: ConnectionOpener;
  /** The last peers by their addresses: clients often open one connection after the other. */
  readonly #peers = new Map<string | undefined, Peer>();

  /** Accepts what connects to the server of `opener`, and opens each connection with all its bytes of HTTP unread. */
  constructor(options: AcceptorOptions, limiter: ConnectionLimiter, opener: ConnectionOpener) {
    this.#options = options;
    this.#limiter = limiter;
    this.#opener = opener;
    opener.server.on("connection", (tcp) => this.#accept(tcp));
  }

  /** Closes the connections that have not sent a byte, on which no request can get lost. */
  endSilent(): void {
    void inPortions([...this.#limiter.waiting()], (tcp) => void (tcp.bytesRead === 0 && tcp.destroy()));
  }

  destroyAll(): void {
    void inPortions([...this.#limiter.waiting()], (tcp) => void tcp.destroy());
  }

  #accept(tcp: Socket): void {
    const { proxyProtocol, settings, onProxyHeaderRefused: onRefused } = this.#options;
    if (hasLeft(tcp)) {
      tcp.destroy();
      return;
    }
    if (!this.#limiter.accept(tcp)) return;
    const onHeader = (header: ProxiedPeer): void => this.#begin(tcp, header);
    if (!proxyProtocol) {
      onHeader(noHeader);
      return;
    }
    this.#limiter.wait(tcp, this.#readPeer(tcp.remoteAddress).key);
    takeProxyHeader(tcp, settings.current.headTimeoutMs, { onHeader, onRefused });
  }

  #begin(tcp: Socket, { source }: ProxiedPeer): void {
    const peer = this.#readPeer(source ?? tcp.remoteAddress);
    this.#limiter.waited(tcp);
    if (!this.#limiter.admit(tcp, peer)) return;
    const { handshakes } = this.#options;
    if (handshakes === null) {
      this.#opener.openHttp1({ socket: tcp, tcp, peer });
      return;
    }
    this.#limiter.wait(tcp, peer.key);
    handshakes.begin(tcp, peer.key, {
      onSecure: (socket) => {
        this.#limiter.waited(tcp);
        const accepted = { socket, tcp, peer };
        if (socket.alpnProtocol === "h2") this.#opener.openHttp2(accepted);
        else this.#opener.openHttp1(accepted);
      },
      // The socket stays among those that wait, because it only gets a reply and is closed.
      onPlainHttp: () => this.#opener.reject(tcp, peer, localReplies.plainHttp),
    });
  }

  /** Takes an address as the system or a PROXY header spells it. */
  #readPeer(address: string | undefined): Peer {
    const rules = this.#options.settings.current.clientAddress;
    const known = this.#peers.get(address);
    if (known !== undefined && known.rules === rules) return known;
    const peer = readPeer(address, rules);
    if (this.#peers.size >= maxKnownPeers) this.#peers.clear();
    this.#peers.set(address, peer);
    return peer;
  }
}

/** Returns whether the connection was reset before it was accepted: it may have a request, but no address to charge. */
function hasLeft({ remoteAddress }: Socket): boolean {
  return remoteAddress === undefined;
}

type ProxiedPeer = Pick<CompleteProxyHeader, "source">;

const noHeader: ProxiedPeer = { source: null };
