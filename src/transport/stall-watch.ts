// Closes a connection that makes no progress: nothing is received, and the kernel takes nothing of what is sent. It is
// asked regularly, so that no connection needs a timer that each of its reads and writes would restart. Without it, a
// client that stops reading would hold its connection to the upstream forever.
import type { Socket } from "node:net";
import { handleOf } from "../exchange/sockets.ts";

export class StallWatch {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  /** Received and sent, when they were last seen to have grown. */
  #bytes = -1;
  #sinceMs = 0;

  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
  }

  check(nowMs: number): void {
    const socket = this.#socket;
    // What has left the stream, and the kernel has not taken yet.
    const unsentBytes = handleOf(socket)?.writeQueueSize ?? 0;
    const bytes = socket.bytesRead + socket.bytesWritten - unsentBytes;
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#sinceMs = nowMs;
    } else if (nowMs - this.#sinceMs >= this.#timeoutMs) socket.destroy();
  }
}
