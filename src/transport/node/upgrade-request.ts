// A request that asks for another protocol: Node has handed its socket out, so what Node does for a response is done
// here. What the client sends before the upstream has agreed is kept, up to a bound, and is never read as a request,
// whatever the answer is.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { ignoreReset } from "../http1-socket.ts";
import { NodeResponse } from "./node-response.ts";

/** Beyond this the client is not read until the upstream has answered. */
const maxEarlyBytes = 64 * 1024;

/** The connection of the request. */
export interface UpgradeOwner {
  readonly socket: Socket;
  readonly isClosing: boolean;
}

export class UpgradeRequest {
  /** Answers with anything but a 101; the connection ends after it. */
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
    // A break is told by "close", to the response as well.
    socket.on("error", ignoreReset);
    socket.setTimeout(0);
    this.response.assignSocket(socket);
    socket.on("drain", this.#onDrain);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    this.response.once("finish", this.#onAnswered);
    if (this.#earlyBytes >= maxEarlyBytes) socket.pause();
    else socket.resume();
  }

  /** What the client sent so far; from now on its bytes are the caller's. Null if it has ended its side. */
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
    // Behind another answer they belong to nothing.
    if (this.#connection.isClosing) return;
    this.#early?.push(bytes);
    this.#earlyBytes += bytes.length;
    if (this.#earlyBytes >= maxEarlyBytes) this.#connection.socket.pause();
  };

  /** As everywhere: a client that closes its sending side before the answer counts as gone. */
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
