// The minimum rate of a body, in either direction: the client may be waited for at most `bodyTimeoutMs` in all, and
// each 16 KiB that move give one second back. A timeout for the whole body would break long transfers on slow lines; a
// timeout between two pieces would let one byte a minute hold a connection to the upstream for ever.
import { localReplies } from "../core/local-reply.ts";
import type { ExchangeListener } from "../exchange/exchange.ts";

export interface MinRateOptions {
  /** The longest wait without progress. */
  readonly bodyTimeoutMs: number;
  readonly nowMs: () => number;
}

/** Slower than any line in practical use. */
const minBytesPerSecond = 16 * 1024;

/**
 * A transfer at this rate is not idle. Transfers have to be as fast only while a client without a connection waits, and
 * only those of a client that holds more than an equal share. At this rate, a client that uploads the largest bodies at
 * its default quota holds a quarter of the default connections.
 */
const busyBytesPerSecond = 256 * 1024;

/** Ordinary responses end earlier; an event stream may never end. */
const longResponseMs = 10_000;

/**
 * Returns how much longer a response has taken than ten seconds plus the time that its bytes take at the busy rate; at least
 * 0. `headMs`: when its head came; null before.
 */
export function overdueMs(headMs: number | null, nowMs: number, bytes: number): number {
  if (headMs === null) return 0;
  return Math.max(0, nowMs - headMs - longResponseMs - (bytes / busyBytesPerSecond) * 1000);
}

export class MinRateTimeout {
  readonly #timeoutMs: number;
  readonly #nowMs: () => number;
  readonly #owner: Pick<ExchangeListener, "cancel">;
  #leftMs: number;
  /** Since when `#leftMs` runs down; null while the client is not waited for. */
  #sinceMs: number | null = null;
  #idleMs = 0;
  #timer: NodeJS.Timeout | null = null;

  /** A transfer that is too slow is canceled. */
  constructor({ bodyTimeoutMs, nowMs }: MinRateOptions, owner: Pick<ExchangeListener, "cancel">) {
    this.#timeoutMs = bodyTimeoutMs;
    this.#nowMs = nowMs;
    this.#owner = owner;
    this.#leftMs = bodyTimeoutMs;
  }

  /** The client is waited for from now on. */
  begin(): void {
    if (this.#sinceMs !== null) return;
    this.#sinceMs = this.#nowMs();
    // A timer that still runs from the wait before fires no later than needed: what is left has only grown since.
    this.#timer ??= setTimeout(MinRateTimeout.#onTimer, Math.ceil(this.#leftMs), this);
  }

  moved(bytes: number): void {
    this.#countDown();
    this.#leftMs = Math.min(this.#timeoutMs, this.#leftMs + (bytes / minBytesPerSecond) * 1000);
    this.#idleMs = Math.max(0, this.#idleMs - (bytes / busyBytesPerSecond) * 1000);
  }

  /** The wait for the client minus the time that its bytes take at the busy rate; 0 while it is not waited for. */
  idleMs(): number {
    if (this.#sinceMs === null) return 0;
    this.#countDown();
    return this.#idleMs;
  }

  /** Resets the idle time to zero. */
  endIdle(): void {
    this.#countDown();
    this.#idleMs = 0;
  }

  /** The client is not waited for from now on. */
  pause(): void {
    this.#countDown();
    this.#sinceMs = null;
  }

  end(): void {
    this.#sinceMs = null;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #countDown(): void {
    if (this.#sinceMs === null) return;
    const nowMs = this.#nowMs();
    this.#leftMs -= nowMs - this.#sinceMs;
    this.#idleMs += nowMs - this.#sinceMs;
    this.#sinceMs = nowMs;
  }

  /** One function for all: a closure would be made for each transfer. */
  static #onTimer(timeout: MinRateTimeout): void {
    timeout.#timer = null;
    if (timeout.#sinceMs === null) return;
    timeout.#countDown();
    if (timeout.#leftMs <= 0) timeout.#owner.cancel(localReplies.slowRequest);
    else timeout.#timer = setTimeout(MinRateTimeout.#onTimer, Math.ceil(timeout.#leftMs), timeout);
  }
}
