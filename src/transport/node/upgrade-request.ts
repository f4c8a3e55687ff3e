// An Upgrade request: Node has released its socket, so this does what Node does for a response. Bytes that the client
// sends before the upstream has responded are kept, up to a bound, and never parsed as a request, whatever the response
// is.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { ignoreError } from "../../core/failure.ts";
import { maxWaitingBytes } from "../http1-socket.ts";
import { NodeResponse } from "./node-response.ts";

export interface UpgradeOwner {
  readonly socket: Socket;
  readonly isClosing: boolean;
}

export class UpgradeRequest {
  /** Sends any response but a 101; the connection is closed after it. */
  readonly response: NodeResponse;
  readonly #connection: UpgradeOwner;
  #early: Buffer[] | null;
  #earlyBytes = 0;

  constructor(req: IncomingMessage, connection: UpgradeOwner, head: Buffer) {
    const { socket } = connection;
    this.response = new NodeResponse(req);
    this.#connection = connection;
    this.#early = head.length > 0 ? [head] : [];
    this.#earlyBytes = head.length;
    socket.on("error", ignoreError);
    socket.setTimeout(0);
    this.response.assignSocket(socket);
    socket.on("drain", this.#onDrain);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    this.response.once("finish", this.#onAnswered);
    if (this.#earlyBytes >= maxWaitingBytes) socket.pause();
    else socket.resume();
  }

  /** Returns what the client sent so far, and stops reading the socket. Null if the client has ended its side. */
  release(): readonly Buffer[] | null {
    const { socket } = this.#connection;
    const early = this.#early;
    this.#early = null;
    socket.pause();
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("drain", this.#onDrain);
    return socket.readableEnded ? null : early;
  }

  readonly #onData = (bytes: Buffer): void => {
    // Bytes after another response are ignored.
    if (this.#connection.isClosing) return;
    this.#early?.push(bytes);
    this.#earlyBytes += bytes.length;
    if (this.#earlyBytes >= maxWaitingBytes) this.#connection.socket.pause();
  };

  /** As in all transports, a client that closes its sending side before the response has left. */
  readonly #onEnd = (): void => {
    if (!this.#connection.isClosing) this.#connection.socket.destroy();
  };

  readonly #onDrain = (): void => void this.response.emit("drain");

  readonly #onAnswered = (): void => {
    const { socket } = this.#connection;
    this.#early = null;
    this.response.detachSocket(socket);
    socket.destroySoon();
    this.response.emit("close");
  };
}
