// The connections of clients that are open: found by their socket, by how long they have been without a request,
// and ended together. A connection is forgotten when its socket closes, whoever closes it and whatever protocol it speaks by
// then.
import type { Socket } from "node:net";
import type { Connection } from "./connection.ts";

export class ConnectionTable {
  readonly #connections = new Map<Socket, Connection>();
  /** Without a request under way, the one that has been so longest first. */
  readonly #idle = new Set<Connection>();

  /** Requests that are being answered. */
  get activeCount(): number {
    return [...this.#connections.values()].filter(({ active }) => active !== null).length;
  }

  get idleCount(): number {
    return this.#idle.size;
  }

  get(socket: Socket): Connection | undefined {
    return this.#connections.get(socket);
  }

  add(connection: Connection): void {
    const { socket } = connection;
    this.#connections.set(socket, connection);
    this.#idle.add(connection);
    connection.onTurns = (isIdle) => {
      if (isIdle && !socket.destroyed) this.#idle.add(connection);
      else this.#idle.delete(connection);
    };
    socket.once("close", () => this.#forget(connection));
  }

  /** The one that has been without a request longest. It is not named again before its next one. */
  takeIdle(): Connection | undefined {
    const [longest] = this.#idle;
    if (longest !== undefined) this.#idle.delete(longest);
    return longest;
  }

  endWhenIdle(headTimeoutMs: number): void {
    for (const connection of this.#connections.values()) connection.endWhenIdle(headTimeoutMs);
  }

  destroyAll(): void {
    for (const { socket } of this.#connections.values()) socket.destroy();
  }

  #forget(connection: Connection): void {
    this.#connections.delete(connection.socket);
    this.#idle.delete(connection);
  }
}
