// How long a 429 asks its client to wait, and how long to wait when it does not say. Pure: chance and the clock are
// arguments. The answer is never shorter than what Retry-After says.
import { parseHttpDate } from "./http-date.ts";

/**
 * The spec's cap on a wait that the server did not ask for. A Retry-After is not capped: it is kept or refused whole.
 */
export const BACKOFF_CAP_MS = 30_000;

/**
 * Milliseconds, more than 0, or null when Retry-After is missing, 0, past or unreadable: then the caller backs off.
 * A date is measured against the response's own Date, so that the two machines' clocks need not agree; `wallMs` is read
 * only when that is missing (browsers hide Date from other origins unless the server exposes it).
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
 * Exponential back-off with full jitter: anywhere from 0 to min(cap, base · 2^retries). Full rather than partial jitter
 * because those who wait were refused together and would come back together.
 * @param retries how many times this request was sent again already
 * @param random as Math.random: from 0 to less than 1
 */
export function backoffMs(retries: number, baseDelayMs: number, random: () => number): number {
  return random() * Math.min(BACKOFF_CAP_MS, baseDelayMs * 2 ** retries);
}
