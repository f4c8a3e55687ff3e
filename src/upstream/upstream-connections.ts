// At most `maxConnections` connections to the upstream, to all of its addresses together, each carrying one request at a
// time and kept for the next one. As many requests again may wait for a free one, for at most the connect timeout; who
// comes later or waits longer is told that the gateway is overloaded. Of an address, the connection used last is used
// first, so spare ones fall idle and close.
import type { ConnectionFigures } from "../core/upstream.ts";
import type { Endpoint, EndpointConnection } from "./endpoint.ts";
import type { Endpoints } from "./endpoints.ts";
import {
  type Connections,
  type PoolWaiter,
  UpstreamConnection,
  type UpstreamConnectionOptions,
} from "./upstream-connection.ts";

export interface UpstreamConnectionsOptions {
  readonly endpoints: Endpoints;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly maxConnections: number;
}

export class UpstreamConnections implements Connections {
  readonly #options: UpstreamConnectionsOptions;
  readonly #endpoints: Endpoints;
  readonly #connectionOptions: UpstreamConnectionOptions;
  readonly #all = new Set<EndpointConnection>();
  /** With what gives the attempt up. */
  readonly #opening = new Map<PoolWaiter, () => void>();
  /** In the order they came. */
  readonly #waiting = new Map<PoolWaiter, NodeJS.Timeout>();

  constructor(options: UpstreamConnectionsOptions) {
    this.#options = options;
    this.#connectionOptions = {
      responseTimeoutMs: options.responseTimeoutMs,
      // One that closes under a request is that request's until it is released.
      onClose: (connection) => {
        if (connection.endpoint.idle.includes(connection)) this.#drop(connection);
      },
    };
    this.#endpoints = options.endpoints;
    this.#endpoints.onGone(({ idle }) => {
      for (const connection of [...idle]) this.#drop(connection);
    });
  }

  /** Answers at once if a connection is free, or if there can be none. */
  acquire(seeker: PoolWaiter): void {
    const endpoint = this.#endpoints.choose();
    if (endpoint === null) seeker.onNoConnection(this.#endpoints.noAddress());
    else if (endpoint.idle.length > 0) this.#lend(endpoint, seeker);
    else if (this.#hasRoom()) this.#give(endpoint, seeker);
    else if (this.#waiting.size >= this.#options.maxConnections) seeker.onNoConnection(null);
    else this.#wait(seeker);
  }

  leave(seeker: PoolWaiter): void {
    this.#stopWaiting(seeker);
    const giveUp = this.#opening.get(seeker);
    if (giveUp === undefined) return;
    this.#opening.delete(seeker);
    giveUp();
    this.#serve();
  }

  release(connection: UpstreamConnection): void {
    this.#endpoints.endLease(connection);
    if (connection.isClosed || connection.endpoint.isGone) this.#drop(connection);
    else connection.endpoint.idle.push(connection);
    if (this.#waiting.size > 0) this.#serve();
  }

  /** In place of a connection that was closed: a new one, before anybody who waits. */
  replace(connection: UpstreamConnection, seeker: PoolWaiter): void {
    this.#endpoints.endLease(connection);
    this.#drop(connection);
    this.#open(this.#endpoints.choose() ?? connection.endpoint, seeker);
  }

  /** It was new, and reset before a byte of an answer. */
  resetUnanswered(connection: UpstreamConnection | null): void {
    if (connection !== null) this.#endpoints.resetUnanswered(connection.endpoint);
  }

  figures(): ConnectionFigures {
    const idle = this.#endpoints.all.reduce((sum, endpoint) => sum + endpoint.idle.length, 0);
    return { active: this.#all.size + this.#opening.size - idle, idle, waiting: this.#waiting.size };
  }

  /** Closes the idle connections and breaks the others. */
  close(): void {
    for (const seeker of [...this.#waiting.keys(), ...this.#opening.keys()]) {
      this.leave(seeker);
      seeker.onNoConnection(null);
    }
    for (const connection of this.#all) connection.abort();
  }

  #isFull(): boolean {
    return this.#all.size + this.#opening.size >= this.#options.maxConnections;
  }

  #hasRoom(): boolean {
    return !this.#isFull() || this.#endpoints.all.some(({ idle }) => idle.length > 0);
  }

  /** There is room. */
  #give(chosen: Endpoint, seeker: PoolWaiter): void {
    const endpoint = this.#isFull() && chosen.idle.length === 0 ? this.#endpoints.chooseIdle() : chosen;
    if (endpoint !== null && endpoint.idle.length > 0) {
      this.#lend(endpoint, seeker);
      return;
    }
    if (this.#isFull()) {
      // What is kept for an address that is not to be used now makes room.
      const spare = this.#endpoints.all.find(({ idle }) => idle.length > 0)?.idle[0];
      if (spare !== undefined) this.#drop(spare);
    }
    this.#open(chosen, seeker);
  }

  #lend(endpoint: Endpoint, seeker: PoolWaiter): void {
    const connection = endpoint.idle.pop() as UpstreamConnection;
    this.#endpoints.lend(connection);
    seeker.onConnection(connection);
  }

  #open(endpoint: Endpoint, seeker: PoolWaiter): void {
    const giveUp = this.#endpoints.open(
      endpoint,
      { allowHalfOpen: false },
      {
        onOpened: (opened) => {
          this.#opening.delete(seeker);
          const connection = new UpstreamConnection(opened, this.#connectionOptions);
          this.#all.add(connection);
          seeker.onConnection(connection);
        },
        onFailed: (error, at) => {
          this.#opening.delete(seeker);
          seeker.onNoConnection(error, at);
          this.#serve();
        },
      },
    );
    this.#opening.set(seeker, giveUp);
    seeker.onOpening();
  }

  /** Closes it, if it is not closed. */
  #drop(connection: EndpointConnection): void {
    const { idle } = connection.endpoint;
    const at = idle.indexOf(connection);
    if (at !== -1) idle.splice(at, 1);
    this.#all.delete(connection);
    if (!connection.isClosed) connection.abort();
  }

  #serve(): void {
    for (const seeker of [...this.#waiting.keys()]) {
      const endpoint = this.#endpoints.choose();
      if (endpoint === null || !this.#hasRoom()) return;
      // One before it may have taken it along.
      if (this.#stopWaiting(seeker)) this.#give(endpoint, seeker);
    }
  }

  #wait(seeker: PoolWaiter): void {
    const timer = setTimeout(() => {
      this.#waiting.delete(seeker);
      seeker.onNoConnection(null);
    }, this.#options.connectTimeoutMs);
    this.#waiting.set(seeker, timer);
  }

  #stopWaiting(seeker: PoolWaiter): boolean {
    clearTimeout(this.#waiting.get(seeker));
    return this.#waiting.delete(seeker);
  }
}
