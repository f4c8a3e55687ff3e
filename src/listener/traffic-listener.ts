// The listener for traffic: accepts connections within bounds, completes the PROXY header and TLS, opens connections,
// and drains them.

import type { Socket } from "node:net";
import { LRUCache } from "lru-cache";
import { type Peer, readPeer } from "../core/client-address.ts";
import type { ProxyHeaderRefusal } from "../core/connection-ends.ts";
import type { HostPort } from "../core/ip-address.ts";
import { localReplies } from "../core/local-reply.ts";
import type { Replaceable, Scheme, TrafficSettings } from "../core/settings.ts";
import { type ConnectionOpener, inPortions } from "../exchange/connection.ts";
import { type ListenAddress, listen as openListener } from "../exchange/listen.ts";
import { ConnectionLimiter, type ConnectionLimits } from "./connection-limiter.ts";
import type { ConnectionTable } from "./connection-table.ts";
import { takeProxyHeader } from "./proxy-header.ts";
import type { TlsHandshakes } from "./tls-handshakes.ts";

interface TrafficListenerOptions extends AcceptorOptions, ConnectionLimits {
  /** The system could not accept a connection. */
  readonly onFailure: (error: unknown) => void;
}

/** How often connections are checked for their timeouts. */
const checkIntervalMs = 500;

export class TrafficListener {
  readonly #options: TrafficListenerOptions;
  readonly #connections: ConnectionTable;
  readonly #opener: ConnectionOpener;
  readonly #limiter: ConnectionLimiter;
  readonly #acceptor: Acceptor;
  #sweepTimer: NodeJS.Timeout | undefined;

  /** `connections` contains what `opener` opens. */
  constructor(options: TrafficListenerOptions, connections: ConnectionTable, opener: ConnectionOpener) {
    this.#options = options;
    this.#connections = connections;
    this.#opener = opener;
    this.#limiter = new ConnectionLimiter({
      ...options,
      connections,
      answerOverloaded:
        options.handshakes === null ? (socket, peer) => opener.reject(socket, peer, localReplies.overloaded) : null,
    });
    this.#acceptor = new Acceptor(options, this.#limiter, opener);
  }

  get connectionCount(): number {
    return this.#limiter.count;
  }

  /** Resolves when listening. Rejects with the system's error. */
  async listen(address: ListenAddress): Promise<HostPort> {
    const opened = await openListener(this.#opener.server, address, this.#options.onFailure);
    // The event loop runs timers before it reads: behind the reads, a connection whose request has arrived is not idle.
    this.#sweepTimer = setInterval(() => setImmediate(() => this.#sweep()), checkIntervalMs).unref();
    return opened;
  }

  /** Makes every response announce that its connection closes. New connections are still accepted. */
  announceEnd(): void {
    this.#connections.isDraining = true;
  }

  /**
   * Accepts no new connections and closes each connection after its requests in progress. Resolves when all are closed
   * or the timeout has expired, with the number of requests that were aborted then; all exchanges have ended by that
   * time.
   */
  async drain(timeoutMs: number): Promise<number> {
    this.#connections.isDraining = true;
    this.#connections.endWhenIdle();
    this.#acceptor.endSilent();
    const { server } = this.#opener;
    if (!server.listening) return 0;
    let aborted: Promise<number> = Promise.resolve(0);
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    const timer = setTimeout(() => {
      this.#acceptor.destroyAll();
      this.#limiter.destroyRefused();
      aborted = this.#connections.abortAll();
    }, timeoutMs);
    await closed;
    clearTimeout(timer);
    clearInterval(this.#sweepTimer);
    // The server closes before the last socket emits "close". Without this, that connection's exchanges end after the drain.
    await this.#connections.abortAll();
    return aborted;
  }

  #sweep(): void {
    void this.#limiter.makeRoomForOthers();
    void this.#connections.sweep();
  }
}

interface AcceptorOptions {
  readonly settings: Replaceable<TrafficSettings>;
  /** Whether each connection has to begin with a PROXY header. */
  readonly proxyProtocol: boolean;
  readonly onProxyHeaderRefused: (reason: ProxyHeaderRefusal) => void;
  /** Null: connections are plain. */
  readonly handshakes: TlsHandshakes | null;
}

/** One client could fill the memory with addresses of its network. */
const maxKnownPeers = 1_024;

/**
 * Opens accepted sockets as connections: checks the bounds on connections, then reads the PROXY header and completes
 * the TLS handshake, in this order, where they are configured. The HTTP parser sees a connection only after that.
 */
class Acceptor {
  readonly #options: AcceptorOptions;
  readonly #limiter: ConnectionLimiter;
  readonly #opener: ConnectionOpener;
  /** The last peers by their addresses: clients often open one connection after the other. */
  readonly #peers = new LRUCache<string, Peer>({ max: maxKnownPeers });

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
    // Reset before it was accepted: it may have a request, but no address to charge.
    if (tcp.remoteAddress === undefined) tcp.destroy();
    else if (this.#limiter.accept(tcp)) {
      if (this.#options.proxyProtocol) this.#awaitHeader(tcp);
      else this.#begin(tcp, tcp.remoteAddress, "http");
    }
  }

  #awaitHeader(tcp: Socket): void {
    const { settings, onProxyHeaderRefused: onRefused } = this.#options;
    this.#limiter.wait(tcp, this.#readPeer(tcp.remoteAddress).key);
    takeProxyHeader(tcp, settings.current.headTimeoutMs, {
      onHeader: ({ source, scheme }) =>
        this.#begin(tcp, source ?? tcp.remoteAddress, scheme ?? settings.current.proxyScheme),
      onRefused,
    });
  }

  #begin(tcp: Socket, address: string | undefined, scheme: Scheme): void {
    const peer = this.#readPeer(address);
    this.#limiter.waited(tcp);
    if (!this.#limiter.admit(tcp, peer)) return;
    const { handshakes } = this.#options;
    if (handshakes === null) this.#opener.openHttp1({ socket: tcp, tcp, peer, scheme });
    else this.#handshake(tcp, peer, handshakes);
  }

  #handshake(tcp: Socket, peer: Peer, handshakes: TlsHandshakes): void {
    this.#limiter.wait(tcp, peer.key);
    handshakes.begin(tcp, peer.key, {
      onSecure: (socket) => {
        this.#limiter.waited(tcp);
        const accepted = { socket, tcp, peer, scheme: "https" } as const;
        if (socket.alpnProtocol === "h2") this.#opener.openHttp2(accepted);
        else this.#opener.openHttp1(accepted);
      },
      // The socket stays among those that wait, because it only gets a reply and is closed.
      onPlainHttp: () => this.#opener.reject(tcp, peer, localReplies.plainHttp),
    });
  }

  /** Takes an address as the system or a PROXY header spells it. */
  #readPeer(address = ""): Peer {
    const rules = this.#options.settings.current.clientAddress;
    const known = this.#peers.get(address);
    if (known !== undefined && known.rules === rules) return known;
    const peer = readPeer(address, rules);
    this.#peers.set(address, peer);
    return peer;
  }
}
