// The bytes of a raw connection that have been received and not read: the beginning of a head, or pipelined requests. With
// very many of them the socket is not read.
import type { Socket } from "node:net";
import { maxWaitingBytes } from "../../exchange/http1-bounds.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";

export class UnreadBytes {
  readonly #socket: Socket;
  #first: Buffer | null = null;
  /** Received after `#first`. */
  #next: JoinedPieces | null = null;
  #isPaused = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get isEmpty(): boolean {
    return this.#first === null && this.#next === null;
  }

  /** Keeps bytes in front of all others, without a copy. */
  putBack(bytes: Buffer): void {
    this.#first = bytes;
  }

  /** Keeps a copy of bytes behind all others. */
  add(bytes: Buffer): void {
    this.#next ??= new JoinedPieces();
    this.#next.add(bytes);
    if (this.#hasRoom()) return;
    this.#isPaused = true;
    this.#socket.pause();
  }

  /** Removes all and returns them; null if there are none. Call `readOn` when those that are not needed are put back. */
  take(): Buffer | null {
    if (this.isEmpty) return null;
    const [first, next] = [this.#first, this.#next];
    this.#first = null;
    this.#next = null;
    if (next === null) return first;
    return first === null ? next.take() : Buffer.concat([first, next.take()]);
  }

  /** Reads the socket again if few enough bytes are left. */
  readOn(): void {
    if (!this.#isPaused || !this.#hasRoom()) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  #hasRoom(): boolean {
    return (this.#first?.length ?? 0) + (this.#next?.length ?? 0) < maxWaitingBytes;
  }
}
