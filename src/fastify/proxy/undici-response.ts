// Judges what undici reports of a request: its errors, and the heads of responses, of which it takes more than a proxy may
// pass on.
import { STATUS_CODES } from "node:http";
import { type HeaderList, trimBlanks } from "../../core/headers.ts";
import type { UpstreamErrorReason } from "../../core/upstream.ts";
import { upstreamErrorCode, upstreamErrorReason } from "../../upstream/upstream-error.ts";

const reasonsByCode: Readonly<Record<string, UpstreamErrorReason>> = {
  UND_ERR_HEADERS_TIMEOUT: "response_timeout",
  UND_ERR_BODY_TIMEOUT: "body_timeout",
  UND_ERR_HEADERS_OVERFLOW: "head_too_large",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "closed_early",
  // The other side closed the connection, or sent what cannot be a response.
  UND_ERR_SOCKET: "closed_early",
};

/** The error is one of undici, or one of the connection that undici passes on. */
export function undiciErrorReason(error: Error): UpstreamErrorReason {
  const code = upstreamErrorCode(error);
  return reasonsByCode[code] ?? (code.startsWith("HPE_") ? "malformed" : upstreamErrorReason(error));
}

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
