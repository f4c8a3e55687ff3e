// A request's body on its way to the upstream: streamed with backpressure and bounded in size and time. When it is stopped
// the client's message stays as it is, so that a response can still be sent to the client.
import type { Readable } from "node:stream";
import { MinRateTimeout } from "./min-rate-timeout.ts";
import type { BodySource } from "./upstream-request.ts";

export interface BodyBounds {
  readonly maxBodyBytes: number;
  readonly timeoutMs: number;
  readonly nowMs: () => number;
}

export class RequestBody implements BodySource {
  readonly #source: Readable;
  readonly #maxBodyBytes: number;
  readonly #refuse: (why: "too_large" | "too_slow") => void;
  readonly #minRate: MinRateTimeout;
  #bytes = 0;
  /** The pieces of this tick, which are written together: a body in pieces of one byte must not cost a write for each. */
  #held: Buffer[] = [];
  #isOver = false;
  #onPiece: (bytes: Buffer) => boolean = () => true;
  #onLast: () => void = () => {};

  /** `refuse` is called at most once, before the body ends: the upstream sees a broken request, never a short one. */
  constructor(source: Readable, bounds: BodyBounds, refuse: (why: "too_large" | "too_slow") => void) {
    this.#source = source;
    this.#maxBodyBytes = bounds.maxBodyBytes;
    this.#refuse = refuse;
    this.#minRate = new MinRateTimeout({ ...bounds, onExhausted: () => refuse("too_slow") });
    source.on("data", this.#onData);
    source.on("end", this.#onEnd);
    source.pause();
  }

  start(onPiece: (bytes: Buffer) => boolean, onEnd: () => void): void {
    this.#onPiece = onPiece;
    this.#onLast = onEnd;
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
    this.#source.off("data", this.#onData);
    this.#source.off("end", this.#onEnd);
    this.#source.pause();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes += chunk.length;
    this.#minRate.moved(chunk.length);
    if (this.#bytes > this.#maxBodyBytes) {
      this.#refuse("too_large");
      return;
    }
    if (this.#held.length === 0) process.nextTick(this.#pass);
    this.#held.push(chunk);
  };

  readonly #pass = (): void => {
    const [first] = this.#held;
    if (first === undefined || this.#isOver) return;
    const piece = this.#held.length === 1 ? first : Buffer.concat(this.#held);
    this.#held = [];
    if (this.#onPiece(piece)) return;
    // From here on the upstream is waited for, which has a timeout of its own.
    this.#minRate.pause();
    this.#source.pause();
  };

  readonly #onEnd = (): void => {
    // A reset HTTP/2 stream emits "end" too, and its body is not complete.
    if (this.#source.destroyed) return;
    this.#pass();
    if (this.#isOver) return;
    this.#isOver = true;
    this.#minRate.end();
    this.#onLast();
  };
}
