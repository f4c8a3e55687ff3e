// A fetch that retries after a 429, as the API advises. It retries nothing else: the gateway sends a 429 before the
// backend gets the request, so even a POST is safe, but after a 5xx or a failed connection the request may have had an
// effect. Every wait is bounded and can be aborted.
import { wallMs } from "./clock.ts";
import { isReplayable } from "./replayable.ts";
import { backoffMs, retryAfterMs } from "./retry-after.ts";
import { type Sleep, sleep } from "./sleep.ts";

export interface RetryingFetchOptions {
  /** How often a request is sent at most, including the first time. Default 5. */
  readonly maxAttempts?: number;
  /** Maximum total wait of one call. A wait that would exceed it does not begin. Default 300,000. */
  readonly maxWaitMs?: number;
  /** The first back-off if the server does not say how long to wait. Default 1,000. */
  readonly baseDelayMs?: number;
  /** The function that sends. Default: the platform's fetch. */
  readonly fetch?: typeof fetch;
  /** For tests: from 0 to less than 1. Default Math.random. */
  readonly random?: () => number;
  /** For tests: resolves after the wait, rejects with the signal's reason. */
  readonly sleep?: Sleep;
  /** For tests: Unix milliseconds, for a Retry-After date on a response without Date. */
  readonly wallMs?: () => number;
}

/**
 * Makes a function to use in place of `fetch`. If a bound is reached, or the body cannot be sent twice, it resolves with
 * the 429 itself, its body unread. It rejects when fetch rejects, and with the signal's reason when aborted.
 * @throws RangeError for an invalid bound, TypeError for an option that is no function; the message names the option
 */
export function createRetryingFetch(options: RetryingFetchOptions = {}): typeof fetch {
  const settings = checked(options);
  return async (input, init) => {
    const signal = signalOf(input, init);
    let waitedMs = 0;
    for (let attempt = 1; ; attempt++) {
      const response = await settings.fetch(input, init);
      if (response.status !== 429 || attempt >= settings.maxAttempts || !isReplayable(input, init)) return response;
      const waitMs =
        retryAfterMs(response.headers, settings.wallMs) ??
        backoffMs(attempt - 1, settings.baseDelayMs, settings.random);
      if (waitedMs + waitMs > settings.maxWaitMs) return response;
      discard(response);
      await settings.sleep(waitMs, signal);
      waitedMs += waitMs;
    }
  };
}

/** As in fetch, a signal in `init`, even null, replaces that of the Request. */
function signalOf(input: Parameters<typeof fetch>[0], init: RequestInit | undefined): AbortSignal | null {
  if (init?.signal !== undefined) return init.signal;
  return input instanceof Request ? input.signal : null;
}

/** Frees the connection. Does not wait, because a server may never end an unread body. */
function discard(response: Response): void {
  // Rejects if the body has failed already, which has freed the connection.
  response.body?.cancel().catch(() => undefined);
}

function checked(options: RetryingFetchOptions): Required<RetryingFetchOptions> {
  return {
    maxAttempts: atLeast(1, "maxAttempts", Number.isInteger, options.maxAttempts ?? 5),
    maxWaitMs: atLeast(0, "maxWaitMs", Number.isFinite, options.maxWaitMs ?? 300_000),
    baseDelayMs: atLeast(1, "baseDelayMs", Number.isFinite, options.baseDelayMs ?? 1_000),
    // Looked up at each call, so that a later replacement (by a polyfill or a test) is used.
    fetch: callable("fetch", options.fetch ?? ((input, init) => fetch(input, init))),
    random: callable("random", options.random ?? Math.random),
    sleep: callable("sleep", options.sleep ?? sleep),
    wallMs: callable("wallMs", options.wallMs ?? wallMs),
  };
}

function atLeast(least: number, name: string, isKind: (value: unknown) => boolean, value: number): number {
  if (isKind(value) && value >= least) return value;
  const kind = isKind === Number.isInteger ? "an integer" : "a finite number";
  throw new RangeError(`${name} must be ${kind} of at least ${least}, not ${String(value)}`);
}

function callable<T>(name: string, value: T): T {
  if (typeof value === "function") return value;
  throw new TypeError(`${name} must be a function`);
}
