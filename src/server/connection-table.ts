// The connections of clients that are open: found by their socket, counted, and ended together. A connection is
// forgotten when its socket closes, whoever closes it and whatever protocol it speaks by then.
import type { Socket } from "node:net";
import type { Connection } from "./connection.ts";

export class ConnectionTable {
  readonly #connections = new Map<Socket, Connection>();

  get size(): number {
    return this.#connections.size;
  }

  /** Requests that are being answered. */
  get activeCount(): number {
    return [...this.#connections.values()].filter(({ active }) => active !== null).length;
  }

  get(socket: Socket): Connection | undefined {
    return this.#connections.get(socket);
  }

  add(connection: Connection): void {
    const { socket } = connection;
    this.#connections.set(socket, connection);
    socket.once("close", () => this.#connections.delete(socket));
  }

  endWhenIdle(): void {
    for (const connection of this.#connections.values()) connection.endWhenIdle();
  }

  destroyAll(): void {
    for (const { socket } of this.#connections.values()) socket.destroy();
  }
}
