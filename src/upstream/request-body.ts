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
  /** The memory of `#kept` that was reported to the waiter. */
  #reportedBytes = 0;
  #sink: BodySink | null = null;
  #bytes = 0;
  readonly #kept = new JoinedPieces();
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
    return this.#takeKept();
  }

  start(sink: BodySink): void {
    // What has come while it waited may be the rest, and the upstream is told the length of a body that is whole.
    if (this.#kept.length > 0 && !this.#isWhole) this.#source.resume();
    this.#sink = sink;
    // Until now the body waited for its client without a connection.
    this.#minRate.endIdle();
    if (this.#isWhole) this.#finish(nothing);
    else if (this.#kept.length === 0) this.resume();
    else if (this.#send(this.#takeKept())) this.resume();
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
    this.#takeKept();
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
  sendKept(): void {
    this.#isSending = false;
    if (this.#isOver || this.#sink === null || this.#kept.length === 0) return;
    this.#send(this.#takeKept());
  }

  /** Returns whether the body may wait for more. */
  #hold(chunk: Buffer): boolean {
    this.#kept.add(chunk);
    const grownBytes = this.#kept.keptBytes - this.#reportedBytes;
    this.#reportedBytes += grownBytes;
    return grownBytes === 0 || this.#waiter?.onBodyMemory(grownBytes) === true;
  }

  #keep(chunk: Buffer): void {
    if (this.#hold(chunk) && this.#kept.length < maxGatheredBytes) return;
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
      this.#kept.add(chunk);
      if (this.#kept.length >= maxJoinedBytes) this.#send(this.#takeKept());
      else if (!this.#isSending) {
        this.#isSending = true;
        // Not on the next tick: Node's parser runs the ticks between two chunks of one read.
        setImmediate(sendKept, this);
      }
      return;
    }
    if (this.#kept.length > 0) this.#send(this.#takeKept());
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
    if (this.#kept.length > 0) this.#kept.add(last);
    const rest = this.#takeKept();
    this.#isOver = true;
    this.#sink?.endBody(this, rest.length === 0 ? last : rest);
  }

  #takeKept(): Buffer {
    if (this.#reportedBytes > 0) this.#waiter?.onBodyMemory(-this.#reportedBytes);
    this.#reportedBytes = 0;
    return this.#kept.take();
  }
}

const nothing = Buffer.alloc(0);

function onData(this: Readable, chunk: Buffer): void {
  bodies.get(this)?.onData(chunk, progressOf(chunk.length), false);
}

function onEnd(this: Readable): void {
  bodies.get(this)?.onEnd();
}

function sendKept(body: RequestBody): void {
  body.sendKept();
}
