// A request's body on its way to the upstream: streamed with backpressure, counted, and never in the way of an answer. undici
// destroys the body it was given when a request fails; given the client's message itself, that would be the
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

  /** `refuse` is called at most once, before the body ends; the upstream then sees a broken request, never a short one. */
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
    } else if (!this.push(chunk)) {
      // Now it is the upstream that is waited for, which has a timeout of its own.
      this.#patience.pause();
      this.#source.pause();
    }
  };

  readonly #onEnd = (): void => {
    this.#patience.end();
    this.push(null);
  };
}
