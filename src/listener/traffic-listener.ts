// The listener for traffic: accepts connections within bounds, completes the PROXY header and TLS, opens connections,
// and drains them.
import type { HostPort } from "../core/ip-address.ts";
import { localReplies } from "../core/local-reply.ts";
import type { ConnectionOpener } from "../exchange/connection.ts";
import { type ListenAddress, listen as openListener } from "../exchange/listen.ts";
import { Acceptor, type AcceptorOptions } from "./acceptor.ts";
import { ConnectionLimiter, type ConnectionLimiterOptions } from "./connection-limiter.ts";
import type { ConnectionTable } from "./connection-table.ts";

interface TrafficListenerOptions
  extends AcceptorOptions,
    Omit<ConnectionLimiterOptions, "connections" | "answerOverloaded"> {
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
    this.#sweepTimer = setInterval(() => this.#sweep(), checkIntervalMs).unref();
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
