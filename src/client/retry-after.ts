// Computes how long a client waits after a 429: at least as long as Retry-After says, else with exponential back-off.
import { parseHttpDate } from "./http-date.ts";

/** The specified maximum of a back-off. A Retry-After has no maximum: it is followed or not. */
export const BACKOFF_CAP_MS = 30_000;

/**
 * Returns milliseconds, more than 0, or null if Retry-After is missing, 0, past or malformed: then the caller backs
 * off. A date is compared with the response's own Date, so that both clocks need not agree. `wallMs` is read only
 * without a Date, which browsers hide from other origins unless the server exposes it.
 */
export function retryAfterMs(headers: Headers, wallMs: () => number): number | null {
  const text = headers.get("retry-after")?.trim();
  if (text === undefined) return null;
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : untilDate(text, headers, wallMs);
  return waitMs !== null && waitMs > 0 ? waitMs : null;
}

function untilDate(text: string, headers: Headers, wallMs: () => number): number | null {
  const dateMs = parseHttpDate(text);
  if (dateMs === null) return null;
  return dateMs - (parseHttpDate(headers.get("date")?.trim() ?? "") ?? wallMs());
}

/**
 * Returns a back-off from 0 to min(cap, base · 2^retries), with full jitter, because clients that were refused together
 * would otherwise retry together. `retries` counts the earlier retries; `random` is like Math.random.
 */
export function backoffMs(retries: number, baseDelayMs: number, random: () => number): number {
  return random() * Math.min(BACKOFF_CAP_MS, baseDelayMs * 2 ** retries);
}
