// At most `maxConnections` connections to the upstream, each carrying one request at a time and kept for the next one.
// As many requests again may wait for a free one, for at most the connect timeout; who comes later or waits longer is
// told that the gateway is overloaded. The connection used last is used first, so spare ones fall idle and close.
import type { UpstreamConnections as ConnectionFigures } from "../core/upstream.ts";
import type { Connector } from "./connector.ts";
import { UpstreamSlot } from "./upstream-slot.ts";

export interface UpstreamOptions {
  readonly connect: Connector;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly maxConnections: number;
}

interface Waiter {
  readonly ready: (connection: UpstreamSlot | null) => void;
  readonly timer: NodeJS.Timeout;
}

export class UpstreamConnections {
  readonly #options: UpstreamOptions;
  readonly #free: UpstreamSlot[] = [];
  readonly #all = new Set<UpstreamSlot>();
  readonly #waiting = new Set<Waiter>();

  constructor(options: UpstreamOptions) {
    this.#options = options;
  }

  /**
   * Calls `ready` with a connection, at once if one is free, or with null if none became free in time.
   * Returns a function that stops waiting; it does nothing after `ready` was called.
   */
  acquire(ready: (connection: UpstreamSlot | null) => void): () => void {
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

  release(connection: UpstreamSlot): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free.push(connection);
      return;
    }
    this.#stopWaiting(next);
    next.ready(connection);
  }

  figures(): ConnectionFigures {
    const idle = this.#free.filter(({ isOpen }) => isOpen).length;
    return { active: this.#all.size - this.#free.length, idle, waiting: this.#waiting.size };
  }

  /** Closes the idle connections and breaks the others. */
  close(): void {
    for (const waiter of [...this.#waiting]) {
      this.#stopWaiting(waiter);
      waiter.ready(null);
    }
    for (const slot of this.#all) slot.abort();
  }

  #open(): UpstreamSlot | undefined {
    const { connect, responseTimeoutMs, maxConnections } = this.#options;
    if (this.#all.size >= maxConnections) return undefined;
    const connection = new UpstreamSlot({ connect, responseTimeoutMs });
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
