// At most `maxConnections` connections to the upstream, each carrying one request at a time and kept for the next one.
// As many requests again may wait for a free one, for at most the connect timeout; who comes later or waits longer is
// told that the gateway is overloaded. The connection used last is used first, so spare ones fall idle and close.
import { Client } from "undici";
import type { UpstreamConnections as ConnectionFigures } from "../core/upstream.ts";
import { createConnector } from "./connector.ts";

export interface UpstreamOptions {
  readonly url: string;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly maxConnections: number;
}

/** A connection slot. undici opens the connection with the first request and again after it was closed. */
export interface UpstreamConnection {
  readonly client: Client;
  /** A response was completed on the connection that is open now: the next request may meet an idle close. */
  isReused: boolean;
}

interface Waiter {
  readonly ready: (connection: UpstreamConnection | null) => void;
  readonly timer: NodeJS.Timeout;
}

export class UpstreamConnections {
  readonly #options: UpstreamOptions;
  readonly #free: UpstreamConnection[] = [];
  readonly #all = new Set<UpstreamConnection>();
  readonly #waiting = new Set<Waiter>();

  constructor(options: UpstreamOptions) {
    this.#options = options;
  }

  /**
   * Calls `ready` with a connection, at once if one is free, or with null if none became free in time.
   * Returns a function that stops waiting; it does nothing after `ready` was called.
   */
  acquire(ready: (connection: UpstreamConnection | null) => void): () => void {
    const connection = this.#free.pop() ?? this.#open();
    if (connection !== undefined) {
      ready(connection);
      return nothing;
    }
    if (this.#waiting.size >= this.#options.maxConnections) {
      ready(null);
      return nothing;
    }
    return this.#wait(ready);
  }

  release(connection: UpstreamConnection): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free.push(connection);
      return;
    }
    this.#stopWaiting(next);
    next.ready(connection);
  }

  figures(): ConnectionFigures {
    const idle = this.#free.filter(({ client }) => client.stats.connected).length;
    return { active: this.#all.size - this.#free.length, idle, waiting: this.#waiting.size };
  }

  /** Closes the idle connections and breaks the others. */
  async close(): Promise<void> {
    for (const waiter of [...this.#waiting]) {
      this.#stopWaiting(waiter);
      waiter.ready(null);
    }
    await Promise.all([...this.#all].map(({ client }) => client.destroy()));
  }

  #open(): UpstreamConnection | undefined {
    const { url, connectTimeoutMs, responseTimeoutMs, maxConnections } = this.#options;
    if (this.#all.size >= maxConnections) return undefined;
    const client = new Client(new URL(url).origin, {
      connect: createConnector({ timeout: connectTimeoutMs }),
      headersTimeout: responseTimeoutMs,
      bodyTimeout: responseTimeoutMs,
      // Never more than one request on a connection at a time: what is pipelined shares its fate.
      pipelining: 1,
      // An upstream may hint at a longer life of idle connections; a minute is long enough to be useful.
      keepAliveMaxTimeout: 60_000,
    });
    const connection: UpstreamConnection = { client, isReused: false };
    client.on("connect", () => {
      connection.isReused = false;
    });
    this.#all.add(connection);
    return connection;
  }

  #wait(ready: Waiter["ready"]): () => void {
    const timer = setTimeout(() => {
      this.#waiting.delete(waiter);
      ready(null);
    }, this.#options.connectTimeoutMs);
    const waiter: Waiter = { ready, timer };
    this.#waiting.add(waiter);
    return () => this.#stopWaiting(waiter);
  }

  #stopWaiting(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    this.#waiting.delete(waiter);
  }
}

const nothing = (): void => {};
