// A request's body on its way to the upstream: streamed with backpressure, counted, and never in the way of an answer. undici
// destroys the body it was given when a request fails; given the client's message itself, that would be the
// client's socket, and the answer that explains the failure could not be sent.
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";

export interface BodyBounds {
  readonly maxBodyBytes: number;
  /** How long the body may take, and one second more for every `minBytesPerSecond` that came. */
  readonly timeoutMs: number;
}

/**
 * A fixed time would cut long uploads, a time between two pieces would let one byte a minute hold a connection for ever. Anything
 * a person would call a connection is faster than this.
 */
const minBytesPerSecond = 16 * 1024;

export class RequestBody extends Readable {
  readonly #source: IncomingMessage;
  readonly #bounds: BodyBounds;
  readonly #refuse: (why: "too_large" | "too_slow") => void;
  #bytes = 0;
  #timer: NodeJS.Timeout;
  /** Waiting for the client so far; the upstream's slowness is not the client's. */
  #grantedMs: number;

  /** `refuse` is called at most once, before the body ends; the upstream then sees a broken request, never a short one. */
  constructor(source: IncomingMessage, bounds: BodyBounds, refuse: (why: "too_large" | "too_slow") => void) {
    super();
    this.#source = source;
    this.#bounds = bounds;
    this.#refuse = refuse;
    this.#grantedMs = bounds.timeoutMs;
    this.#timer = setTimeout(this.#onTimeout, bounds.timeoutMs);
    source.on("data", this.#onData);
    source.on("end", this.#onEnd);
    source.pause();
  }

  override _read(): void {
    this.#source.resume();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#timer);
    this.#source.off("data", this.#onData);
    this.#source.off("end", this.#onEnd);
    this.#source.pause();
    done(error);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#bounds.maxBodyBytes) this.#refuse("too_large");
    else if (!this.push(chunk)) this.#source.pause();
  };

  readonly #onEnd = (): void => {
    clearTimeout(this.#timer);
    this.push(null);
  };

  readonly #onTimeout = (): void => {
    const earnedMs = this.#bounds.timeoutMs + (this.#bytes / minBytesPerSecond) * 1000;
    // A paused source waits for the upstream, which has a timeout of its own.
    const restMs = this.#source.isPaused() ? this.#bounds.timeoutMs : earnedMs - this.#grantedMs;
    if (restMs <= 0) {
      this.#refuse("too_slow");
      return;
    }
    this.#grantedMs += restMs;
    this.#timer = setTimeout(this.#onTimeout, restMs);
  };
}
