// The connections of clients that are open: found by their socket, by how long they have been without a request,
// and ended together. A connection is forgotten when its socket closes, whoever closes it and whatever protocol it speaks by
// then.
import type { Socket } from "node:net";
import type { Http2Connection } from "../transport/http2/http2-connection.ts";
import { Connection } from "../transport/node/node-http1-connection.ts";
import type { RawHttp1Connection } from "../transport/raw/raw-http1-connection.ts";

export type AnyConnection = Connection | RawHttp1Connection | Http2Connection;

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

  /** It has become another one on the same socket, which is added in its place and says itself when it is idle. */
  remove(connection: AnyConnection): void {
    this.#forget(connection);
    connection.onTurns = () => {};
  }

  destroyIdle(): void {
    const nowMs = this.#nowMs();
    for (const [connection, sinceMs] of this.#idle) {
      if (nowMs - sinceMs < connection.idleTimeoutMs) continue;
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
    if (this.#connections.get(connection.socket) === connection) this.#connections.delete(connection.socket);
    this.#idle.delete(connection);
  }
}
