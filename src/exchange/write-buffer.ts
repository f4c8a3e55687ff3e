// Writes messages and parts of them. A short one is put together in one buffer, which is reused for every message: a list of
// pieces takes longer to write, and if head and body were one text, the body would be copied twice.
import type { Socket } from "node:net";

/** A message to a slow reader keeps its buffer. */
const bufferBytes = 32 * 1024;

/**
 * A complete body of a request up to this length is copied when it is sent upstream. The bytes of a longer one have to stay
 * as they are, because the socket may keep them.
 */
export const maxCopiedBytes = 8 * 1024;

/** Room for bytes that the caller overwrites afterwards (pieces of up to 64 KiB), and for a head of the gateway before them. */
const maxPartBytes = 96 * 1024;

export class WriteBuffer {
  #buffer: Buffer | null = null;
  #partBuffer: Buffer | null = null;

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

  /**
   * Writes a part of a message. The bytes may be overwritten afterwards, unless there are more than `maxPartBytes` in all.
   * Returns whether more may be written before the socket has drained.
   */
  writePart(socket: Socket, before: string, bytes: Buffer, after: string, isPlain: boolean): boolean {
    const length = before.length + bytes.length + after.length;
    if (length > maxPartBytes) {
      socket.cork();
      if (before !== "") socket.write(before, "latin1");
      socket.write(bytes);
      if (after !== "") socket.write(after, "latin1");
      socket.uncork();
      return !socket.writableNeedDrain;
    }
    const isShared = isPlain && socket.writableLength === 0;
    const buffer = isShared
      ? (this.#partBuffer ?? Buffer.allocUnsafeSlow(maxPartBytes))
      : Buffer.allocUnsafeSlow(length);
    buffer.write(before, 0, "latin1");
    buffer.set(bytes, before.length);
    buffer.write(after, before.length + bytes.length, "latin1");
    socket.write(buffer.subarray(0, length));
    const isTaken = socket.writableLength === 0;
    if (isShared) this.#partBuffer = isTaken ? buffer : null;
    return isTaken || !socket.writableNeedDrain;
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
