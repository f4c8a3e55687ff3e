// The connections of clients that are open: found by how long they have been without a request, and ended together. A
// connection is forgotten when its socket closes, whoever closes it and whatever protocol it speaks by then.
import type { Socket } from "node:net";
import type { ClientConnection, ConnectionRegistry } from "../exchange/connection.ts";

export class ConnectionTable implements ConnectionRegistry {
  readonly #connections = new Map<Socket, ClientConnection>();
  /** Without a request under way, and since when; the one that has been so longest first. */
  readonly #idle = new Map<ClientConnection, number>();
  readonly #nowMs: () => number;
  #isEnding = false;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Requests that are being answered. */
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

  /** Returns the connection that has been without a request longest, and not again before its next request. */
  takeIdle(): ClientConnection | undefined {
    const [longest] = this.#idle.keys();
    if (longest !== undefined) this.#idle.delete(longest);
    return longest;
  }

  /** Forgets a connection whose socket another one has taken over, which is added in its place. */
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

  /** Ends every connection behind what is under way on it, those that are added later too. */
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
