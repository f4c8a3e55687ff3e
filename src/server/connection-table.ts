// The connections of clients that are open: found by their socket, by how long they have been without a request,
// and ended together. A connection is forgotten when its socket closes, whoever closes it and whatever protocol it speaks by
// then.
import type { Socket } from "node:net";
import { Connection } from "./connection.ts";
import type { Http2Connection } from "./http2-connection.ts";

export type AnyConnection = Connection | Http2Connection;

export class ConnectionTable {
  readonly #connections = new Map<Socket, AnyConnection>();
  /** Without a request under way, and since when; the one that has been so longest first. */
  readonly #idle = new Map<AnyConnection, number>();
  readonly #nowMs: () => number;

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

  /** Of HTTP/1.1. */
  get(socket: Socket): Connection | undefined {
    const connection = this.#connections.get(socket);
    return connection instanceof Connection ? connection : undefined;
  }

  add(connection: AnyConnection): void {
    const { socket } = connection;
    this.#connections.set(socket, connection);
    this.#idle.set(connection, this.#nowMs());
    connection.onTurns = (isIdle) => {
      if (isIdle && !socket.destroyed) this.#idle.set(connection, this.#nowMs());
      else this.#idle.delete(connection);
    };
    socket.once("close", () => this.#forget(connection));
  }

  /** The one that has been without a request longest. It is not named again before its next one. */
  takeIdle(): AnyConnection | undefined {
    const [longest] = this.#idle.keys();
    if (longest !== undefined) this.#idle.delete(longest);
    return longest;
  }

  /**
   * Node begins its time for an idle connection anew with every empty line, and has none for the lines: what has had
   * the time of both is not going to ask for anything.
   */
  destroyIdle(timeoutMs: number): void {
    const beforeMs = this.#nowMs() - timeoutMs;
    for (const [connection, sinceMs] of this.#idle) {
      if (sinceMs > beforeMs) return;
      this.#idle.delete(connection);
      connection.socket.destroy();
    }
  }

  endWhenIdle(headTimeoutMs: number): void {
    for (const connection of this.#connections.values()) connection.endWhenIdle(headTimeoutMs);
  }

  destroyAll(): void {
    for (const { socket } of this.#connections.values()) socket.destroy();
  }

  #forget(connection: AnyConnection): void {
    this.#connections.delete(connection.socket);
    this.#idle.delete(connection);
  }
}
