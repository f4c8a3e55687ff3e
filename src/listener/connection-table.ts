// The open connections of clients, in the order of their idle time. A connection is removed when its socket closes.
import type { Socket } from "node:net";
import type { ClientConnection, ConnectionRegistry } from "../exchange/connection.ts";
import { inPortions } from "../exchange/portions.ts";

export class ConnectionTable implements ConnectionRegistry {
  readonly #connections = new Map<Socket, ClientConnection>();
  /** The idle connections and the start of their idle time, the longest first. */
  readonly #idle = new Map<ClientConnection, number>();
  readonly #nowMs: () => number;
  #isEnding = false;
  #isDestroyingIdle = false;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
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

  /** Closes, in portions, the connections that have been idle for their maximum time. */
  async destroyIdle(): Promise<void> {
    if (this.#isDestroyingIdle) return;
    this.#isDestroyingIdle = true;
    const nowMs = this.#nowMs();
    await inPortions(this.#idle, ([connection, sinceMs]) => {
      if (nowMs - sinceMs < connection.idleTimeoutMs) return;
      this.#idle.delete(connection);
      connection.socket.destroy();
    });
    this.#isDestroyingIdle = false;
  }

  /**
   * Closes every connection, in portions, after its requests in progress. Includes connections that are added later.
   */
  endWhenIdle(): void {
    this.#isEnding = true;
    void inPortions([...this.#connections.values()], (connection) => connection.endWhenIdle());
  }

  /**
   * Aborts all connections. Resolves with the number of requests that were in progress, when all exchanges have ended.
   */
  async abortAll(): Promise<number> {
    let aborted = 0;
    await inPortions(this.#connections.values(), (connection) => {
      aborted += connection.activeCount;
      connection.abort();
    });
    return aborted;
  }

  #forget(connection: ClientConnection): void {
    if (this.#connections.get(connection.socket) === connection) this.#connections.delete(connection.socket);
    this.#idle.delete(connection);
  }
}
