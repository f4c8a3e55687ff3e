// A caller's connection without Node's HTTP server, which would cost several times as much, for as long as it sends
// simple requests one after the other. The first packet that is anything else is handed off with the connection.
import type { Socket } from "node:net";
import { ignoreError } from "../../core/failure.ts";
import { serializeHead } from "../../core/response-head.ts";
import { maxWaitingBytes } from "../../exchange/http1-bounds.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";
import type { SharedReads } from "../../exchange/shared-reads.ts";
import type { TextWrites } from "../../exchange/text-writes.ts";
import { isEmptyLines, readSimpleRequest } from "../../http1/simple-request.ts";
import { type CheckAnswer, CheckTransport } from "../check.ts";
import { CallMemory, type ReadCall } from "./call-memory.ts";
import type { HttpCaller, HttpCalls } from "./http-calls.ts";

export interface RawConnectionOwner {
  readonly calls: HttpCalls;
  /** Null: sockets are read as streams. */
  readonly reads: SharedReads | null;
  readonly textWrites: TextWrites;
  /** Header lines of an answer that keeps the connection open. */
  readonly keepAliveLines: string;
  /** The connection reads and writes no more. All unhandled bytes are in the socket, which is paused. */
  handOff(connection: RawConnection): void;
  closed(connection: RawConnection): void;
}

/** What a connection waits for, which bounds how long it may take. */
export type Waiting = "first-call" | "next-call" | "decision" | "flush" | "end";

export class RawConnection implements HttpCaller {
  readonly takesUnavailable = false;
  readonly socket: Socket;
  readonly address: string | undefined;
  waitsFor: Waiting = "first-call";
  /** Sweeps since it began to wait. */
  sweeps = 0;
  readonly #owner: RawConnectionOwner;
  readonly #transport: CheckTransport;
  /** It is read into the buffer that all connections share. */
  readonly #isShared: boolean;
  readonly #memory = new CallMemory();
  #hasAsked = false;
  #isHead = false;
  #isLastCall = false;
  /** Bytes that were received before the last answer was sent. */
  readonly #next = new JoinedPieces();

  constructor(socket: Socket, owner: RawConnectionOwner) {
    this.socket = socket;
    this.address = socket.remoteAddress;
    this.#owner = owner;
    this.#transport = new CheckTransport(this);
    socket.on("end", this.#onEnd).on("error", ignoreError).on("close", this.#onClose);
    this.#isShared = owner.reads?.take(socket, this.#onBytes) ?? false;
    if (!this.#isShared) socket.on("data", this.#onBytes);
  }

  get isGone(): boolean {
    return this.socket.destroyed;
  }

  answer({ status, reason, lines, body }: CheckAnswer): void {
    const isLast = this.#isLastCall || this.#owner.calls.isEnding;
    const connection = isLast ? "Connection: close\r\n" : this.#owner.keepAliveLines;
    this.#send(serializeHead(status, reason, lines + connection) + (this.#isHead ? "" : body), isLast);
  }

  endAfterAnswer(): void {
    this.#isLastCall = true;
  }

  abort(): void {
    this.socket.destroy();
  }

  /** `text`: one character is one byte. */
  #send(text: string, isLast: boolean): void {
    const { socket } = this;
    if (isLast) {
      this.#wait("end");
      socket.end(text, "latin1");
      // What the caller still sends is read and discarded: unread bytes would reset the connection.
      socket.resume();
      return;
    }
    // Usually the kernel has taken it. Otherwise an empty write reports when it has.
    if (this.#owner.textWrites.write(socket, text)) this.#flushed();
    else {
      this.#wait("flush");
      socket.write("", "latin1", this.#onFlushed);
    }
  }

  #wait(waitsFor: Waiting): void {
    this.waitsFor = waitsFor;
    this.sweeps = 0;
  }

  #flushed(): void {
    this.#wait("next-call");
    if (this.#next.length > 0) this.#handOff(this.#next.take());
  }

  #begin(packet: Buffer): void {
    const call = this.#memory.find(packet) ?? this.#read(packet);
    if (call === null) {
      this.#handOff(packet);
      return;
    }
    this.#wait("decision");
    this.#isHead = call.method === "HEAD";
    this.#isLastCall = call.isLast;
    this.#owner.calls.begin(call, this, this.#transport);
  }

  /** Returns null if the packet is not one simple request. */
  #read(packet: Buffer): ReadCall | null {
    const request = readSimpleRequest(packet);
    if (request === null) return null;
    const { method, target, rawHeaders, isLast } = request;
    const call: ReadCall = { method, target, rawHeaders, isLast, head: null, isKept: false };
    // A connection that brings a single call needs no memory.
    if (this.#hasAsked) call.isKept = this.#memory.keep(packet, call);
    this.#hasAsked = true;
    return call;
  }

  #handOff(unread: Buffer): void {
    const { socket } = this;
    socket.off("end", this.#onEnd).off("error", ignoreError).off("close", this.#onClose);
    // Paused, because without a listener flowing data would be lost.
    if (this.#isShared) this.#owner.reads?.release(socket, unread);
    else socket.off("data", this.#onBytes).pause().unshift(unread);
    this.#owner.handOff(this);
  }

  readonly #onBytes = (bytes: Buffer): void => {
    switch (this.waitsFor) {
      case "first-call":
        this.#begin(bytes);
        return;
      case "next-call":
        // Empty lines must not start the timeout of a head.
        if (!isEmptyLines(bytes)) this.#begin(bytes);
        return;
      case "decision":
      case "flush":
        this.#next.add(bytes);
        if (this.#next.length >= maxWaitingBytes) this.socket.pause();
        return;
      case "end":
    }
  };

  /** A caller that closes its sending side before its answer has left. */
  readonly #onEnd = (): void => {
    if (this.waitsFor === "decision" || this.waitsFor === "flush") this.socket.destroy();
    else if (this.waitsFor !== "end") {
      this.#wait("end");
      this.socket.end();
    }
  };

  readonly #onFlushed = (error?: Error | null): void => {
    if (error === undefined || error === null) this.#flushed();
  };

  readonly #onClose = (): void => this.#owner.closed(this);
}
