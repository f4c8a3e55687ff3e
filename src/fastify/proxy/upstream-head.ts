// Judges the head of a response as undici has read it, which takes more for a response than a proxy may pass on.
import { STATUS_CODES } from "node:http";
import { type HeaderList, trimBlanks } from "../../core/headers.ts";

/** Whether a response may be an interim one: a 101 switches to what nobody asked for. */
export function isInterim(status: number): boolean {
  return status >= 100 && status < 200 && status !== 101;
}

/** Whether status line and framing of a final response are sound (RFC 9110, 15; RFC 9112, 4 and 6.1). */
export function isSound(status: number, reason: string, headers: HeaderList): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (status > 599 || /[\x00-\x08\x0a-\x1f\x7f]/.test(reason)) return false;
  let encodings = 0;
  for (let i = 0; i < headers.length; i += 2) {
    // As text, it would be another header.
    if (/[\r\n]/.test(headers[i + 1] ?? "")) return false;
    if (headers[i]?.toLowerCase() !== "transfer-encoding") continue;
    encodings += 1;
    if (trimBlanks(headers[i + 1] ?? "").toLowerCase() !== "chunked") return false;
  }
  return encodings <= 1;
}

/** undici leaves the blanks behind a value. */
export function trimmed(headers: HeaderList): string[] {
  return headers.map((text, i) => (i % 2 === 1 ? trimBlanks(text) : text));
}

/** undici reads the reason as UTF-8. Where it is not, the status has one of its own. */
export function reasonOf(status: number, given: string): string {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(given) ? given : (STATUS_CODES[status] ?? "");
}
