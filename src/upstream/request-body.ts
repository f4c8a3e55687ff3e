// A request's body on its way to the upstream: streamed with backpressure, counted, and never in the way of an answer.
// Whoever gives it up leaves the client's message as it is, so that the answer that explains why can still be sent.
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
  readonly #patience: MinRateTimeout;
  #bytes = 0;
  /** Pieces of this tick: a body in pieces of one byte must not cost the upstream's side a write for each. */
  #held: Buffer[] = [];
  #isOver = false;
  #onPiece: (bytes: Buffer) => boolean = () => true;
  #onLast: () => void = () => {};

  /**
   * `refuse` is called at most once, before the body ends; the upstream then sees a broken request, never a short one.
   */
  constructor(source: Readable, bounds: BodyBounds, refuse: (why: "too_large" | "too_slow") => void) {
    this.#source = source;
    this.#maxBodyBytes = bounds.maxBodyBytes;
    this.#refuse = refuse;
    this.#patience = new MinRateTimeout({ ...bounds, onExhausted: () => refuse("too_slow") });
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
    this.#patience.begin();
    this.#source.resume();
  }

  /** No more is taken from the client's message. */
  giveUp(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#held = [];
    this.#patience.end();
    this.#source.off("data", this.#onData);
    this.#source.off("end", this.#onEnd);
    this.#source.pause();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes += chunk.length;
    this.#patience.moved(chunk.length);
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
    // Now it is the upstream that is waited for, which has a timeout of its own.
    this.#patience.pause();
    this.#source.pause();
  };

  readonly #onEnd = (): void => {
    // A stream of HTTP/2 that was reset says so too, and its body is not whole.
    if (this.#source.destroyed) return;
    this.#pass();
    if (this.#isOver) return;
    this.#isOver = true;
    this.#patience.end();
    this.#onLast();
  };
}
