// The listener for traffic: what is accepted is bounded, introduced (PROXY header, TLS) and opened as a connection; and
// how all of it comes to an end.
import { Server as NetServer } from "node:net";
import { localReplies } from "../core/local-reply.ts";
import type { ConnectionOpener } from "../exchange/connection.ts";
import { listen as openListener } from "../exchange/listen.ts";
import { Acceptor, type AcceptorOptions } from "./acceptor.ts";
import { ConnectionLimiter, type ConnectionLimiterOptions } from "./connection-limiter.ts";
import type { ConnectionTable } from "./connection-table.ts";

export interface TrafficListenerOptions
  extends AcceptorOptions,
    Omit<ConnectionLimiterOptions, "connections" | "answerOverloaded"> {
  /** The system could not accept a connection. */
  readonly onFailure: (error: unknown) => void;
}

/** How often connections are looked at that may have been idle for too long. */
const checkIntervalMs = 500;

export class TrafficListener {
  readonly #options: TrafficListenerOptions;
  readonly #connections: ConnectionTable;
  readonly #opener: ConnectionOpener;
  readonly #limiter: ConnectionLimiter;
  readonly #acceptor: Acceptor;
  #isDraining = false;
  #idleTimer: NodeJS.Timeout | undefined;

  /** `connections` holds what `opener` opens. */
  constructor(options: TrafficListenerOptions, connections: ConnectionTable, opener: ConnectionOpener) {
    this.#options = options;
    this.#connections = connections;
    this.#opener = opener;
    this.#limiter = new ConnectionLimiter({
      ...options,
      connections,
      answerOverloaded:
        options.tls === null ? (socket, peer) => opener.reject(socket, peer, localReplies.overloaded) : null,
    });
    this.#acceptor = new Acceptor(options, this.#limiter);
    this.#acceptor.acceptOn(opener.server, {
      onHttp1: (accepted) => opener.openHttp1(accepted),
      onHttp2: (accepted) => opener.openHttp2(accepted),
      onPlainHttp: ({ socket, peer }) => opener.reject(socket, peer, localReplies.plainHttp),
    });
  }

  get connectionCount(): number {
    return this.#limiter.count;
  }

  /** True: every response from now on says that its connection ends with it. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Resolves when listening. Rejects with the system's error when the address cannot be had. */
  async listen(host: string, port: number): Promise<{ host: string; port: number }> {
    const address = await openListener(this.#opener.server, { host, port }, this.#options.onFailure);
    this.#idleTimer = setInterval(() => this.#connections.destroyIdle(), checkIntervalMs).unref();
    return address;
  }

  /** Every response from now on says that its connection ends with it. New connections are still accepted. */
  announceEnd(): void {
    this.#isDraining = true;
  }

  /**
   * Accepts no new connections; responses from now on end theirs. Resolves when the last connection is gone or the time is
   * up, with the number of requests that were broken off then. No exchange is under way any more after that.
   */
  async drain(timeoutMs: number): Promise<number> {
    this.#isDraining = true;
    this.#connections.endWhenIdle();
    this.#acceptor.endSilent();
    const { server } = this.#opener;
    if (!server.listening) return 0;
    let brokenOff = 0;
    // Not the close of node:http: that one breaks off responses that are still being written, and stops timing heads.
    const closed = new Promise<void>((resolve) => void NetServer.prototype.close.call(server, () => resolve()));
    const timer = setTimeout(() => {
      brokenOff = this.#connections.activeCount;
      this.#connections.abortAll();
      this.#acceptor.destroyAll();
      this.#limiter.destroyRefused();
    }, timeoutMs);
    await closed;
    clearTimeout(timer);
    clearInterval(this.#idleTimer);
    // Only ends what Node checks regularly.
    server.close();
    return brokenOff;
  }
}
