// A request's body on its way to the upstream: streamed with backpressure and bounded in size and time. When it is stopped
// the client's message stays as it is, so that a response can still be sent to the client.
import type { Readable } from "node:stream";
import { localReplies } from "../core/local-reply.ts";
import type { ExchangeListener } from "../exchange/exchange.ts";
import { type MinRateOptions, MinRateTimeout } from "./min-rate-timeout.ts";
import type { BodySink, BodySource } from "./upstream-request.ts";

export interface BodyOptions extends MinRateOptions {
  readonly maxBodyBytes: number;
}

/** By what they read from, so that the listeners below serve all bodies and none is made for a request. */
const bodies = new WeakMap<Readable, RequestBody>();

export class RequestBody implements BodySource {
  readonly #source: Readable;
  readonly #maxBodyBytes: number;
  readonly #owner: Pick<ExchangeListener, "cancel">;
  readonly #minRate: MinRateTimeout;
  #sink: BodySink | null = null;
  #bytes = 0;
  /** The pieces of this tick, which are written together: a body in pieces of one byte must not cost a write for each. */
  #held: Buffer[] = [];
  #isOver = false;

  /** The owner is canceled before the body ends, so that the upstream sees a broken request, never a short one. */
  constructor(source: Readable, options: BodyOptions, owner: Pick<ExchangeListener, "cancel">) {
    this.#source = source;
    this.#maxBodyBytes = options.maxBodyBytes;
    this.#owner = owner;
    this.#minRate = new MinRateTimeout(options, owner);
    bodies.set(source, this);
    source.on("data", onData).on("end", onEnd);
    source.pause();
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    this.resume();
  }

  resume(): void {
    if (this.#isOver) return;
    this.#minRate.begin();
    this.#source.resume();
  }

  /** Reads no more of the client's message. */
  stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#held = [];
    this.#minRate.end();
    this.#source.off("data", onData).off("end", onEnd);
    this.#source.pause();
  }

  onData(chunk: Buffer): void {
    this.#bytes += chunk.length;
    this.#minRate.moved(chunk.length);
    if (this.#bytes > this.#maxBodyBytes) {
      this.#owner.cancel(localReplies.bodyTooLarge);
      return;
    }
    if (this.#held.length === 0) process.nextTick(passHeld, this);
    this.#held.push(chunk);
  }

  passHeld(): void {
    const [first] = this.#held;
    if (first === undefined || this.#isOver) return;
    const piece = this.#held.length === 1 ? first : Buffer.concat(this.#held);
    this.#held = [];
    if (this.#sink === null || this.#sink.sendPiece(this, piece)) return;
    // From here on the upstream is waited for, which has a timeout of its own.
    this.#minRate.pause();
    this.#source.pause();
  }

  onEnd(): void {
    // A reset HTTP/2 stream emits "end" too, and its body is not complete.
    if (this.#source.destroyed) return;
    this.passHeld();
    if (this.#isOver) return;
    this.#isOver = true;
    this.#minRate.end();
    this.#sink?.endBody(this);
  }
}

function onData(this: Readable, chunk: Buffer): void {
  bodies.get(this)?.onData(chunk);
}

function onEnd(this: Readable): void {
  bodies.get(this)?.onEnd();
}

function passHeld(body: RequestBody): void {
  body.passHeld();
}
