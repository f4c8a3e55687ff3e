// Writes messages whose body is complete. A short one is put together in a buffer that is used again for every message: a
// list of pieces takes longer to write, and a text of all of it would be made twice.
import type { Socket } from "node:net";

/** A message to a slow reader keeps its buffer. */
const bufferBytes = 32 * 1024;

/**
 * A complete body of a request up to this length is copied when it is sent upstream. The bytes of a longer one have to stay
 * as they are, because the socket may keep them.
 */
export const maxCopiedBytes = 8 * 1024;

export class WriteBuffer {
  #buffer: Buffer | null = null;

  /**
   * Writes a message with all of its body; one character of the head is one byte. `isPlain`: the socket has no TLS, which
   * would keep the bytes of the buffer.
   */
  writeMessage(socket: Socket, head: string, body: Buffer, isPlain: boolean): void {
    if (body.length > maxCopiedBytes) {
      socket.cork();
      socket.write(head, "latin1");
      socket.write(body);
      socket.uncork();
    } else if (isPlain && head.length + body.length <= bufferBytes && socket.writableLength === 0) {
      this.#writeCopy(socket, head, body);
    } else {
      socket.write(head + body.toString("latin1"), "latin1");
    }
  }

  #writeCopy(socket: Socket, head: string, body: Buffer): void {
    this.#buffer ??= Buffer.allocUnsafeSlow(bufferBytes);
    this.#buffer.write(head, 0, "latin1");
    this.#buffer.set(body, head.length);
    socket.write(this.#buffer.subarray(0, head.length + body.length));
    // Otherwise the system has copied the bytes.
    if (socket.writableLength > 0) this.#buffer = null;
  }
}
