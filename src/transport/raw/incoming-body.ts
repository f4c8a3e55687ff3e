// The body of a request that does not come in one packet with its head. While it is read, its bytes are passed on where
// they were received; what nobody reads yet is kept in one piece, because each small piece by itself would take a hundred
// times its size. With much of it the socket is not read.
import type { Socket } from "node:net";
import { freePieceBytes } from "../../core/piece-budget.ts";
import { maxWaitingBytes } from "../../exchange/http1-bounds.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";
import type { BodyReader, PushedBody } from "../../exchange/pushed-body.ts";

export class IncomingBody implements PushedBody {
  readonly #socket: Socket;
  #leftBytes: number;
  reader: BodyReader | null = null;
  destroyed = false;
  receivedBytes = 0;
  #isFlowing = false;
  /** The bytes that came with the head, until they are passed on or kept. */
  #first: Buffer = nothing;
  /** Received behind them. */
  readonly #waiting = new JoinedPieces();
  /** Of all that waits. */
  #progressBytes = 0;
  #isPaused = false;

  /** `received`: the beginning of its `bytes`. Call `keep` before they are overwritten. */
  constructor(socket: Socket, bytes: number, received: Buffer) {
    this.#socket = socket;
    this.#leftBytes = bytes;
    this.#first = this.#take(received);
    this.#progressBytes = progressOf(this.#first);
  }

  /** All of it has been received. */
  get isComplete(): boolean {
    return this.#leftBytes === 0;
  }

  /** Copies what came with the head and has not been passed on. */
  keep(): void {
    const first = this.#first;
    this.#first = nothing;
    if (first.length > 0) this.#wait(first);
  }

  /** Takes what belongs to the body. Returns how many bytes that are. */
  receive(bytes: Buffer): number {
    const taken = this.#take(bytes);
    if (taken.length === 0) return 0;
    const progressBytes = progressOf(taken);
    if (this.#isFlowing && this.#waiting.length === 0) this.#pass(taken, progressBytes);
    else {
      this.#progressBytes += progressBytes;
      this.#wait(taken);
    }
    return taken.length;
  }

  pause(): void {
    this.#isFlowing = false;
  }

  resume(): void {
    this.#isFlowing = true;
    if (this.#first.length > 0) {
      const first = this.#first;
      this.#first = nothing;
      this.#passWaiting(first);
    }
    if (this.#isFlowing && this.#waiting.length > 0) this.#passWaiting(this.#waiting.take());
    if (!this.#isFlowing || !this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  /** Frees what waits, and takes what still comes without passing it on. */
  destroy(): void {
    this.destroyed = true;
    this.reader = null;
    this.#first = nothing;
    this.#waiting.take();
  }

  #take(bytes: Buffer): Buffer {
    const length = Math.min(this.#leftBytes, bytes.length);
    this.#leftBytes -= length;
    this.receivedBytes += length;
    return length === bytes.length ? bytes : bytes.subarray(0, length);
  }

  #wait(bytes: Buffer): void {
    if (this.destroyed) return;
    this.#waiting.add(bytes);
    if (this.isComplete || this.#isPaused || this.#waiting.length < maxWaitingBytes) return;
    this.#isPaused = true;
    this.#socket.pause();
  }

  #passWaiting(bytes: Buffer): void {
    const progressBytes = this.#progressBytes;
    this.#progressBytes = 0;
    this.#pass(bytes, progressBytes);
  }

  #pass(bytes: Buffer, progressBytes: number): void {
    this.reader?.onData(bytes, progressBytes, this.isComplete && this.#waiting.length === 0);
  }
}

const nothing = Buffer.alloc(0);

/** The first bytes of each piece are no progress: they pay for what a piece costs whatever its length. */
function progressOf(piece: Buffer): number {
  return Math.max(0, piece.length - freePieceBytes);
}
