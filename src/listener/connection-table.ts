// The open connections of clients, in the order of their idle time. A connection is removed when its socket closes.
import type { Socket } from "node:net";
import type { ClientConnection, ConnectionRegistry } from "../exchange/connection.ts";

export class ConnectionTable implements ConnectionRegistry {
  readonly #connections = new Map<Socket, ClientConnection>();
  /** The idle connections and the start of their idle time, the longest first. */
  readonly #idle = new Map<ClientConnection, number>();
  readonly #nowMs: () => number;
  #isEnding = false;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Requests in progress. */
  get activeCount(): number {
    return [...this.#connections.values()].reduce((sum, { activeCount }) => sum + activeCount, 0);
  }

  get idleCount(): number {
    return this.#idle.size;
  }

  add(connection: ClientConnection): void {
    const { socket } = connection;
    this.#connections.set(socket, connection);
    this.#idle.set(connection, this.#nowMs());
    connection.onIdleChange = (isIdle) => {
      if (isIdle && !socket.destroyed) this.#idle.set(connection, this.#nowMs());
      else this.#idle.delete(connection);
    };
    socket.once("close", () => this.#forget(connection));
    if (this.#isEnding) connection.endWhenIdle();
  }

  /** Returns the connection that has been idle longest. It is not returned again before its next request has ended. */
  takeIdle(): ClientConnection | undefined {
    const [longest] = this.#idle.keys();
    if (longest !== undefined) this.#idle.delete(longest);
    return longest;
  }

  remove(connection: ClientConnection): void {
    this.#forget(connection);
    connection.onIdleChange = () => {};
  }

  destroyIdle(): void {
    const nowMs = this.#nowMs();
    for (const [connection, sinceMs] of this.#idle) {
      if (nowMs - sinceMs < connection.idleTimeoutMs) continue;
      this.#idle.delete(connection);
      connection.socket.destroy();
    }
  }

  /** Closes every connection after its requests in progress, including those that are added later. */
  endWhenIdle(): void {
    this.#isEnding = true;
    for (const connection of this.#connections.values()) connection.endWhenIdle();
  }

  abortAll(): void {
    for (const connection of this.#connections.values()) connection.abort();
  }

  #forget(connection: ClientConnection): void {
    if (this.#connections.get(connection.socket) === connection) this.#connections.delete(connection.socket);
    this.#idle.delete(connection);
  }
}
