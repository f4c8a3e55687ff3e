// Parses the head of an upstream's response, and the fields of its trailers, from text in which each character is one
// byte.
import { trimBlanks } from "../core/blanks.ts";
import { UpstreamFailure } from "./upstream-failure.ts";

export interface ResponseHead {
  readonly status: number;
  /** Each character is one byte, here and in the fields. */
  readonly reason: string;
  readonly fields: string[];
}

/** Bytes that are not allowed in fields and the reason, and line ends other than CRLF. */
export const badBytes = /[^\t\x20-\x7e\x80-\xff\r\n]|\r(?!\n)|(?<!\r)\n/;
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const start = "HTTP/1.";

/** Returns false if the bytes cannot become a valid head. The first `before` bytes have been checked already. */
export function mayBecomeHead(head: Buffer, before: number): boolean {
  if (before < start.length && !start.startsWith(head.toString("latin1", 0, start.length))) return false;
  // The last byte may be the first half of a CRLF, so it is checked again.
  const text = head.toString("latin1", Math.max(0, before - 1)).replace(before > 0 ? /^\n|\r$/g : /\r$/, "");
  return !badBytes.test(text);
}

export const malformed = (): UpstreamFailure => new UpstreamFailure("ERR_MALFORMED_RESPONSE");

export interface ParsedHead {
  readonly head: ResponseHead;
  readonly framing: number | "chunked" | "none";
  /** The x of HTTP/1.x. */
  readonly minor: number;
  readonly closes: boolean;
}

/** `text` is everything before the empty line. */
export function parseHead(text: string): ParsedHead {
  if (badBytes.test(text)) throw malformed();
  const lineEnd = endOfLine(text, 0);
  const { minor, status, reason } = parseStatusLine(text, lineEnd);
  const fields: string[] = [];
  let framing: ParsedHead["framing"] = "none";
  let closes = false;
  for (let at = lineEnd + 2; at < text.length; ) {
    const end = endOfLine(text, at);
    readField(text, at, end, fields);
    at = end + 2;
    const name = fields[fields.length - 2] ?? "";
    const value = fields[fields.length - 1] ?? "";
    // Compares the length first, because most names are none of these.
    if (name.length === 14 && name.toLowerCase() === "content-length") {
      if (framing !== "none" || !/^\d{1,15}$/.test(value)) throw malformed();
      framing = Number(value);
    } else if (name.length === 17 && name.toLowerCase() === "transfer-encoding") {
      // Transfer-Encoding is removed as hop-by-hop, so the bytes of any other coding would pass for content.
      if (framing !== "none" || minor === 0 || value.toLowerCase() !== "chunked") throw malformed();
      framing = "chunked";
    } else if (name.length === 10 && name.toLowerCase() === "connection") {
      closes ||= /(?:^|[\t ,])close(?:$|[\t ,])/i.test(value);
    }
  }
  return { head: { status, reason, fields }, framing, minor, closes };
}

function parseStatusLine(text: string, end: number): { minor: number; status: number; reason: string } {
  const minor = text.charCodeAt(7) - 48;
  const status = Number(text.slice(9, 12));
  const isWhole = end === 12 || (end > 12 && text[12] === " ");
  if (!text.startsWith(start) || minor < 0 || minor > 9 || text[8] !== " " || !isWhole) throw malformed();
  // Other numbers have no meaning (RFC 9110, 15), and Node's HTTP/2 refuses to send them.
  if (!/^[1-5]\d\d$/.test(text.slice(9, 12))) throw malformed();
  return { minor, status, reason: text.slice(13, end) };
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf("\r\n", from);
  return end === -1 ? text.length : end;
}

export function readField(text: string, from: number, to: number, fields: string[]): void {
  const colon = text.indexOf(":", from);
  const name = text.slice(from, colon);
  if (colon === -1 || colon >= to || !token.test(name)) throw malformed();
  fields.push(name, trimBlanks(text, colon + 1, to));
}
