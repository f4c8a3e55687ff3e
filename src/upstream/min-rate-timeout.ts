// How long a client is waited for while a body moves, in either direction: at most `timeoutMs` in all, of which a
// second comes back with every 16 KiB that moves. A fixed time would cut long transfers on slow lines; a time between
// two pieces alone would let one byte a minute hold a connection to the upstream for ever.

/** Anything a person would call a connection is faster than this. */
const minBytesPerSecond = 16 * 1024;

export class MinRateTimeout {
  readonly #timeoutMs: number;
  readonly #nowMs: () => number;
  readonly #onExhausted: () => void;
  #leftMs: number;
  /** From when on `#leftMs` is being used up; null while the client is not what is waited for. */
  #sinceMs: number | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: { timeoutMs: number; nowMs: () => number; onExhausted: () => void }) {
    this.#timeoutMs = options.timeoutMs;
    this.#nowMs = options.nowMs;
    this.#onExhausted = options.onExhausted;
    this.#leftMs = options.timeoutMs;
  }

  /** From now on it is the client that is waited for. */
  begin(): void {
    if (this.#sinceMs !== null) return;
    this.#sinceMs = this.#nowMs();
    // A timer that is still running from a wait before looks again by itself, and never too late: patience only grew.
    this.#timer ??= setTimeout(this.#look, Math.ceil(this.#leftMs));
  }

  moved(bytes: number): void {
    this.#useUp();
    this.#leftMs = Math.min(this.#timeoutMs, this.#leftMs + (bytes / minBytesPerSecond) * 1000);
  }

  /** It is something else that is waited for, or nothing any more. */
  pause(): void {
    this.#useUp();
    this.#sinceMs = null;
  }

  end(): void {
    this.#sinceMs = null;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #useUp(): void {
    if (this.#sinceMs === null) return;
    const nowMs = this.#nowMs();
    this.#leftMs -= nowMs - this.#sinceMs;
    this.#sinceMs = nowMs;
  }

  readonly #look = (): void => {
    this.#timer = null;
    if (this.#sinceMs === null) return;
    this.#useUp();
    if (this.#leftMs <= 0) this.#onExhausted();
    else this.#timer = setTimeout(this.#look, Math.ceil(this.#leftMs));
  };
}
