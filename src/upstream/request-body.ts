// The body of a request on its way to the upstream: streamed with backpressure; its size, time and small pieces are
// bounded. While connections to the upstream are scarce, `gather` reads the body until it is complete or 32 KiB are
// there, and only then a connection is taken, so that a slow client does not hold one. Small pieces are copied and sent
// together. `stop` leaves the client's message as it is, so that a response can still be sent.
import { Readable } from "node:stream";
import { PieceBudget, progressOf } from "../core/http-bounds.ts";
import { JoinedPieces } from "../core/joined-pieces.ts";
import { localReplies } from "../core/local-reply.ts";
import type { Cancellable } from "../exchange/exchange.ts";
import type { BodyReader, PushedBody } from "../exchange/transport.ts";
import { type MinRateOptions, MinRateTimeout } from "./min-rate-timeout.ts";
import type { BodySink, BodySource } from "./outbound-connection.ts";

export interface BodyOptions extends MinRateOptions {
  readonly maxBodyBytes: number;
}

export interface BodyWaiter {
  /** Called when the body keeps `bytes` more in memory; negative: less. Returns false if it should wait no longer. */
  onBodyMemory(bytes: number): boolean;
  /** Called once by `gather`: the body needs its connection now. */
  onBodyReady(): void;
}

/** This much of a body is read before a connection is taken for it. */
const maxGatheredBytes = 32 * 1024;

/** A piece of this length or more is sent at once. */
const wholePieceBytes = 4 * 1024;

/** This many joined bytes are sent without waiting for more. */
const maxJoinedBytes = 64 * 1024;

/** The bodies by the stream that they read. The listeners below serve all bodies, so no closure is made per request. */
const bodies = new WeakMap<Readable, RequestBody>();

export class RequestBody implements BodySource, BodyReader {
  readonly #source: Readable | PushedBody;
  readonly #maxBodyBytes: number;
  readonly #owner: Cancellable;
  readonly #minRate: MinRateTimeout;
  readonly #pieces: PieceBudget;
  #waiter: BodyWaiter | null = null;
  #isReady = false;
  /** The memory of `#held` that was reported to the waiter. */
  #toldBytes = 0;
  #sink: BodySink | null = null;
  #bytes = 0;
  readonly #held = new JoinedPieces();
  #isSending = false;
  /** All of it has been received. */
  #isWhole = false;
  #isOver = false;

  /** The owner is canceled before the body ends, so that the upstream sees a broken request, never a short one. */
  constructor(source: Readable | PushedBody, options: BodyOptions, owner: Cancellable) {
    this.#source = source;
    this.#maxBodyBytes = options.maxBodyBytes;
    this.#owner = owner;
    this.#minRate = new MinRateTimeout(options, owner);
    this.#pieces = new PieceBudget(options.nowMs);
    if (source instanceof Readable) {
      bodies.set(source, this);
      source.on("data", onData).on("end", onEnd);
    } else source.reader = this;
    source.pause();
  }

  /** Reads the beginning, and calls the waiter when there is enough of it. Call `start` or `takeWhole` later. */
  gather(waiter: BodyWaiter): void {
    this.#waiter = waiter;
    this.resume();
  }

  /** Returns all bytes if the body is complete. Null: call `start`. */
  takeWhole(): Buffer | null {
    if (!this.#isWhole) return null;
    this.#isOver = true;
    return this.#takeHeld();
  }

  start(sink: BodySink): void {
    // What has come while it waited may be the rest, and the upstream is told the length of a body that is whole.
    if (this.#held.length > 0 && !this.#isWhole) this.#source.resume();
    this.#sink = sink;
    // Until now the body waited for its client without a connection.
    this.#minRate.endIdle();
    if (this.#isWhole) this.#finish(nothing);
    else if (this.#held.length === 0) this.resume();
    else if (this.#send(this.#takeHeld())) this.resume();
  }

  resume(): void {
    if (this.#isOver || this.#isWhole) return;
    this.#minRate.begin();
    this.#source.resume();
  }

  slowness(): number {
    return this.#minRate.slowness();
  }

  /** Reads no more of the client's message. */
  stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#takeHeld();
    this.#minRate.end();
    const source = this.#source;
    if (source instanceof Readable) source.off("data", onData).off("end", onEnd);
    else source.reader = null;
    source.pause();
  }

  onData(chunk: Buffer, progressBytes: number, isLast: boolean): void {
    this.#bytes += chunk.length;
    this.#minRate.moved(progressBytes);
    if (this.#bytes > this.#maxBodyBytes) this.#owner.cancel(localReplies.bodyTooLarge);
    else if (!this.#pieces.take(chunk.length)) this.#owner.cancel(localReplies.smallPieces);
    else if (isLast) this.#end(chunk);
    else if (this.#sink === null) this.#keep(chunk);
    else this.#pass(chunk);
  }

  onEnd(): void {
    // A reset HTTP/2 stream emits "end" too, and its body is not complete.
    if (!this.#isOver && !this.#source.destroyed) this.#end(nothing);
  }

  #end(last: Buffer): void {
    this.#isWhole = true;
    this.#minRate.end();
    if (this.#sink !== null) this.#finish(last);
    else {
      if (last.length > 0) this.#hold(last);
      this.#ready();
    }
  }

  /** Sends the pieces that were joined in this turn. */
  sendHeld(): void {
    this.#isSending = false;
    if (this.#isOver || this.#sink === null || this.#held.length === 0) return;
    this.#send(this.#takeHeld());
  }

  /** Returns whether the body may wait for more. */
  #hold(chunk: Buffer): boolean {
    this.#held.add(chunk);
    const grownBytes = this.#held.keptBytes - this.#toldBytes;
    this.#toldBytes += grownBytes;
    return grownBytes === 0 || this.#waiter?.onBodyMemory(grownBytes) === true;
  }

  #keep(chunk: Buffer): void {
    if (this.#hold(chunk) && this.#held.length < maxGatheredBytes) return;
    // From here on the request waits for a connection, which has a timeout of its own.
    this.#minRate.pause();
    this.#source.pause();
    this.#ready();
  }

  #ready(): void {
    if (this.#isReady) return;
    this.#isReady = true;
    this.#waiter?.onBodyReady();
  }

  #pass(chunk: Buffer): void {
    if (chunk.length < wholePieceBytes) {
      this.#held.add(chunk);
      if (this.#held.length >= maxJoinedBytes) this.#send(this.#takeHeld());
      else if (!this.#isSending) {
        this.#isSending = true;
        // Not on the next tick: Node's parser runs the ticks between two chunks of one read.
        setImmediate(sendHeld, this);
      }
      return;
    }
    if (this.#held.length > 0) this.#send(this.#takeHeld());
    this.#send(chunk);
  }

  #send(piece: Buffer): boolean {
    if (this.#sink === null || this.#sink.sendPiece(this, piece)) return true;
    // From here on the upstream is waited for.
    this.#minRate.pause();
    this.#source.pause();
    return false;
  }

  #finish(last: Buffer): void {
    if (this.#held.length > 0) this.#held.add(last);
    const rest = this.#takeHeld();
    this.#isOver = true;
    this.#sink?.endBody(this, rest.length === 0 ? last : rest);
  }

  #takeHeld(): Buffer {
    if (this.#toldBytes > 0) this.#waiter?.onBodyMemory(-this.#toldBytes);
    this.#toldBytes = 0;
    return this.#held.take();
  }
}

const nothing = Buffer.alloc(0);

function onData(this: Readable, chunk: Buffer): void {
  bodies.get(this)?.onData(chunk, progressOf(chunk.length), false);
}

function onEnd(this: Readable): void {
  bodies.get(this)?.onEnd();
}

function sendHeld(body: RequestBody): void {
  body.sendHeld();
}
