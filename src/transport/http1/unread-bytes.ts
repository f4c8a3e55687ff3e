// The bytes of a connection of HTTP/1 that have been received and not read: the beginning of a head, or pipelined
// requests. With very many of them the socket is not read.
import type { Socket } from "node:net";
import { maxUnreadBytes } from "../../core/http-bounds.ts";
import { JoinedPieces } from "../../core/joined-pieces.ts";

const nothing = Buffer.alloc(0);

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

  /** Keeps a copy of bytes behind all others. `isHead`: all belong to a head, which has a bound of its own. */
  add(bytes: Buffer, isHead = false): void {
    this.#next ??= new JoinedPieces();
    this.#next.add(bytes);
    if (isHead || this.#hasRoom()) return;
    this.#isPaused = true;
    this.#socket.pause();
  }

  /** Returns all in one piece without removing them. Bytes that were put back are copied once, however many follow. */
  peek(): Buffer {
    const first = this.#first;
    if (first === null || this.#next === null) return first ?? this.#next?.peek() ?? nothing;
    const all = new JoinedPieces();
    all.add(first);
    all.add(this.#next.peek());
    this.#first = null;
    this.#next = all;
    return all.peek();
  }

  /** Removes all and returns them. Call `readOn` when those that are not needed are put back. */
  take(): Buffer {
    const bytes = this.peek();
    this.#first = null;
    this.#next = null;
    return bytes;
  }

  /** Reads the socket again if few enough bytes are left. */
  readOn(): void {
    if (!this.#isPaused || !this.#hasRoom()) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  #hasRoom(): boolean {
    return (this.#first?.length ?? 0) + (this.#next?.length ?? 0) < maxUnreadBytes;
  }
}
