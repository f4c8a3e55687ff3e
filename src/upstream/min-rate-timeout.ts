// The minimum rate of a body, in either direction: the client may be waited for at most `bodyTimeoutMs` in all, and
// each `bodyBytesPerSecond` bytes that move give one second back. A timeout for the whole body would break long transfers
// on slow lines; a timeout between two pieces would let one byte a minute hold a connection to the upstream for ever.
// Also measures how slow a transfer is, for the case that a client without a connection waits for one.
import { localReplies } from "../core/local-reply.ts";
import type { Cancellable } from "../exchange/exchange.ts";

export interface MinRateOptions {
  /** The longest wait without progress. */
  readonly bodyTimeoutMs: number;
  readonly bodyBytesPerSecond: number;
  readonly nowMs: () => number;
}

/**
 * A transfer at this rate is not idle. Transfers have to be as fast only while a client without a connection waits. At this
 * rate, a client that uploads the largest bodies at its default quota holds a quarter of the default connections.
 */
const busyBytesPerSecond = 256 * 1024;

/**
 * A transfer must have been idle for this long before it is slow. This is less than the connect timeout, so that others get
 * its connection in time, and longer than the usual gap between two pieces of an upload.
 */
const minIdleMs = 500;

/** A fast transfer that stands still for a moment is no trickle. No more than this of its fast time counts. */
const maxFastMs = 2_000;

/** Ordinary responses end earlier; an event stream may never end. */
const longResponseMs = 10_000;

/** Returns the slowness of a response that goes on for long, as `MinRateTimeout` does. `headMs`: when its head came; null before. */
export function responseSlowness(headMs: number | null, nowMs: number, bytes: number): number {
  if (headMs === null) return 0;
  const tookMs = nowMs - headMs;
  const idleMs = tookMs - (bytes / busyBytesPerSecond) * 1000;
  return idleMs < longResponseMs + minIdleMs ? 0 : idleMs / tookMs;
}

export class MinRateTimeout {
  readonly #options: MinRateOptions;
  readonly #owner: Cancellable;
  #leftMs: number;
  /** Since when `#leftMs` runs down; null while the client is not waited for. */
  #sinceMs: number | null = null;
  /** The wait for the client minus the time that its bytes take at the busy rate, at least 0. */
  #idleMs = 0;
  /** The wait for the client since `#idleMs` was 0, and up to `maxFastMs` before that. */
  #slowMs = 0;
  #waitedMs = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | null = null;

  /** A transfer that is too slow is canceled. */
  constructor(options: MinRateOptions, owner: Cancellable) {
    this.#options = options;
    this.#owner = owner;
    this.#leftMs = options.bodyTimeoutMs;
  }

  /** The client is waited for from now on. */
  begin(): void {
    if (this.#sinceMs !== null) return;
    this.#sinceMs = this.#options.nowMs();
    // A timer that still runs from the wait before fires no later than needed: what is left has only grown since.
    this.#timer ??= setTimeout(MinRateTimeout.#onTimer, Math.ceil(this.#leftMs), this);
  }

  moved(bytes: number): void {
    const { bodyTimeoutMs, bodyBytesPerSecond } = this.#options;
    this.#countDown();
    this.#bytes += bytes;
    this.#leftMs = Math.min(bodyTimeoutMs, this.#leftMs + (bytes / bodyBytesPerSecond) * 1000);
    this.#idleMs = Math.max(0, this.#idleMs - (bytes / busyBytesPerSecond) * 1000);
  }

  /**
   * Returns 0 while the transfer is not slow, or its client is not waited for. Else a number up to 1, the higher the slower:
   * the part of the wait, since shortly before it became slow, that its bytes would not take at the busy rate.
   */
  slowness(): number {
    if (this.#sinceMs === null) return 0;
    this.#countDown();
    return this.#idleMs < minIdleMs ? 0 : this.#idleMs / this.#slowMs;
  }

  endIdle(): void {
    this.#countDown();
    this.#idleMs = 0;
    this.#slowMs = 0;
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
    const nowMs = this.#options.nowMs();
    const passedMs = nowMs - this.#sinceMs;
    if (this.#idleMs === 0) this.#slowMs = Math.min(this.#slowMs, maxFastMs);
    this.#leftMs -= passedMs;
    this.#idleMs += passedMs;
    this.#slowMs += passedMs;
    this.#waitedMs += passedMs;
    this.#sinceMs = nowMs;
  }

  /** One function for all: a closure would be made for each transfer. */
  static #onTimer(timeout: MinRateTimeout): void {
    timeout.#timer = null;
    if (timeout.#sinceMs === null) return;
    timeout.#countDown();
    if (timeout.#leftMs > 0) timeout.#timer = setTimeout(MinRateTimeout.#onTimer, Math.ceil(timeout.#leftMs), timeout);
    else timeout.#owner.cancel({ ...localReplies.slowRequest, detail: timeout.#tooSlow() });
  }

  #tooSlow(): string {
    const { bodyTimeoutMs, bodyBytesPerSecond } = this.#options;
    const seconds = this.#waitedMs / 1000;
    const isRate = this.#bytes > 0 && this.#bytes < seconds * bodyBytesPerSecond;
    const bound = isRate ? `timeouts.bodyRate ${bodyBytesPerSecond} B/s` : `timeouts.body ${bodyTimeoutMs / 1000} s`;
    return `${bound}: ${this.#bytes} bytes in ${seconds.toFixed(1)} s of waiting for the client`;
  }
}
