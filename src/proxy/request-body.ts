// A request's body on its way to the upstream: streamed with backpressure, counted, and never in the way of an answer.
// undici destroys the body it was given when a request fails; given the client's message itself, that would be the
// client's socket, and the answer that explains the failure could not be sent.
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { Patience } from "./patience.ts";

export interface BodyBounds {
  readonly maxBodyBytes: number;
  readonly timeoutMs: number;
  readonly nowMs: () => number;
}

export class RequestBody extends Readable {
  readonly #source: IncomingMessage;
  readonly #maxBodyBytes: number;
  readonly #refuse: (why: "too_large" | "too_slow") => void;
  readonly #patience: Patience;
  #bytes = 0;
  /** Pieces of this tick: a body in pieces of one byte must not cost the upstream's side a write for each. */
  #held: Buffer[] = [];

  /**
   * `refuse` is called at most once, before the body ends; the upstream then sees a broken request, never a short one.
   */
  constructor(source: IncomingMessage, bounds: BodyBounds, refuse: (why: "too_large" | "too_slow") => void) {
    super();
    this.#source = source;
    this.#maxBodyBytes = bounds.maxBodyBytes;
    this.#refuse = refuse;
    this.#patience = new Patience({ ...bounds, onExhausted: () => refuse("too_slow") });
    source.on("data", this.#onData);
    source.on("end", this.#onEnd);
    source.pause();
  }

  override _read(): void {
    this.#patience.begin();
    this.#source.resume();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#patience.end();
    this.#source.off("data", this.#onData);
    this.#source.off("end", this.#onEnd);
    this.#source.pause();
    done(error);
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
    if (first === undefined || this.destroyed) return;
    const piece = this.#held.length === 1 ? first : Buffer.concat(this.#held);
    this.#held = [];
    if (this.push(piece)) return;
    // Now it is the upstream that is waited for, which has a timeout of its own.
    this.#patience.pause();
    this.#source.pause();
  };

  readonly #onEnd = (): void => {
    this.#pass();
    this.#patience.end();
    this.push(null);
  };
}
