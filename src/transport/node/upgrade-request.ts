// An Upgrade request: Node has released its socket, so this does what Node does for a response. Bytes that the client
// sends before the upstream has responded are kept, up to a bound, and never parsed as a request, whatever the response
// is.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { ignoreError } from "../../core/failure.ts";
import { maxWaitingBytes } from "../../exchange/http1-bounds.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";
import { NodeResponse } from "./node-response.ts";

export interface UpgradeOwner {
  readonly socket: Socket;
  readonly isClosing: boolean;
}

export class UpgradeRequest {
  /** Sends any response but a 101; the connection is closed after it. */
  readonly response: NodeResponse;
  readonly #connection: UpgradeOwner;
  readonly #early = new JoinedPieces();
  #isOver = false;

  constructor(req: IncomingMessage, connection: UpgradeOwner, head: Buffer) {
    const { socket } = connection;
    this.response = new NodeResponse(req);
    this.#connection = connection;
    this.#early.add(head);
    socket.on("error", ignoreError);
    socket.setTimeout(0);
    this.response.assignSocket(socket);
    socket.on("drain", this.#onDrain);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    this.response.once("finish", this.#onAnswered);
    if (this.#early.length >= maxWaitingBytes) socket.pause();
    else socket.resume();
  }

  /** Returns what the client sent so far, and stops reading the socket. Null if the client has ended its side. */
  release(): readonly Buffer[] | null {
    const { socket } = this.#connection;
    const early = this.#early.length > 0 ? [this.#early.take()] : [];
    const isAnswered = this.#isOver;
    this.#isOver = true;
    socket.pause();
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("drain", this.#onDrain);
    return socket.readableEnded || isAnswered ? null : early;
  }

  readonly #onData = (bytes: Buffer): void => {
    // Bytes after another response are ignored.
    if (this.#connection.isClosing || this.#isOver) return;
    this.#early.add(bytes);
    if (this.#early.length >= maxWaitingBytes) this.#connection.socket.pause();
  };

  /** As in all transports, a client that closes its sending side before the response has left. */
  readonly #onEnd = (): void => {
    if (!this.#connection.isClosing) this.#connection.socket.destroy();
  };

  readonly #onDrain = (): void => void this.response.emit("drain");

  readonly #onAnswered = (): void => {
    const { socket } = this.#connection;
    this.#isOver = true;
    this.#early.take();
    this.response.detachSocket(socket);
    socket.destroySoon();
    this.response.emit("close");
  };
}
