// The body of a request that does not come in one packet with its head. What nobody reads yet is kept in one piece, because
// each small piece by itself would take a hundred times its size. With much of it the socket is not read.
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { maxWaitingBytes } from "../../exchange/http1-bounds.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";
import { copyOf } from "../../exchange/shared-reads.ts";

export class SplitBody extends Readable {
  readonly #socket: Socket;
  readonly #bytes: number;
  #leftBytes: number;
  /** Received behind the piece that the stream buffers. */
  readonly #waiting = new JoinedPieces();
  #isPaused = false;

  /** `received`: the beginning of its `bytes`. */
  constructor(socket: Socket, bytes: number, received: Buffer) {
    // So that `_read` is called when everything has been read, and not before.
    super({ highWaterMark: 1 });
    this.#socket = socket;
    this.#bytes = bytes;
    this.#leftBytes = bytes;
    this.receive(received);
  }

  get receivedBytes(): number {
    return this.#bytes - this.#leftBytes;
  }

  /** All of it has been received. */
  get isComplete(): boolean {
    return this.#leftBytes === 0;
  }

  /** Takes a copy of what belongs to the body. Returns how many bytes that are. */
  receive(bytes: Buffer): number {
    const received = Math.min(this.#leftBytes, bytes.length);
    if (received === 0) return 0;
    this.#leftBytes -= received;
    const piece = bytes.subarray(0, received);
    if (this.readableLength > 0 || this.#waiting.length > 0) this.#waiting.add(piece);
    else this.#pass(copyOf(piece));
    if (!this.isComplete && this.#waiting.length + this.readableLength >= maxWaitingBytes) this.#pause();
    return received;
  }

  override _read(): void {
    if (this.#waiting.length > 0) this.#pass(this.#waiting.take());
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  #pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  #pass(piece: Buffer): void {
    // Before the push, which may read on.
    const isLast = this.isComplete;
    this.push(piece);
    if (isLast) this.push(null);
  }
}
