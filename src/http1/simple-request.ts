// Parses a head with a single interpretation: a known method, a target of visible ASCII, HTTP/1.0, 1.1 or a higher minor
// version, which is processed as 1.1 (RFC 9110, 2.5), headers without control characters, and a body of exactly its one
// Content-Length, or in chunks. Any other head is not refused here but left to Node's parser.
import { trimBlanks } from "../core/blanks.ts";
import { maxFields, maxHeadBytes } from "../core/head-bounds.ts";
import { isNamed } from "../core/header-list.ts";
import type { MessageHead } from "../core/message-check.ts";

export interface SimpleHead extends Pick<MessageHead, "method" | "target" | "rawHeaders"> {
  readonly httpVersion: "1.0" | "1.1";
  /** Null: in chunks. */
  readonly bodyBytes: number | null;
  /** The values of Expect; null without one. */
  readonly expectation: string | null;
  /** The client asks to close the connection after the response. */
  readonly isLast: boolean;
}

export interface SimpleRequest extends Omit<SimpleHead, "bodyBytes" | "expectation"> {
  readonly body: Buffer;
}

/** All that Node knows, but for those that are refused: behind a CONNECT, and the body of a TRACE, no request is read. */
const methods = [
  "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|ACL|BIND|CHECKOUT|COPY|LINK|LOCK|M-SEARCH|MERGE|MKACTIVITY|MKCALENDAR|MKCOL",
  "MOVE|NOTIFY|PROPFIND|PROPPATCH|PURGE|QUERY|REBIND|REPORT|SEARCH|SOURCE|SUBSCRIBE|UNBIND|UNLINK|UNLOCK",
  "UNSUBSCRIBE",
].join("|");
const originForm = "\\/[\\x21-\\x7e]*";
const absoluteForm = "https?:\\/\\/[!$%&'()*+,\\-.0-9:;=A-Z_a-z~[\\]]+(?:[/?][\\x21-\\x7e]*)?";
const target = `(?:${originForm}|${absoluteForm}|\\*)`;
const name = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
/** With obs-text (RFC 9110, 5.5), which is UTF-8 or Latin-1: each byte is one character here. */
const value = "[\\t\\x20-\\x7e\\x80-\\xff]*";
const field = `${name}:${value}\\r\\n`;

// Each takes linear time: no character matches two adjacent parts.
const wholeHead = new RegExp(`^(${methods}) (${target}) HTTP\\/1\\.[0-9]\\r\\n(?:${field})+\\r\\n$`);
const originLine = new RegExp(`^(${methods}) (${originForm}) HTTP\\/1\\.[1-9]$`);
/** What can become a simple head, and a few texts that cannot. */
const begunHead = new RegExp(
  `^(?:${methods}) (?:h?t?t?p?s?:?\\/?\\/?|${target}(?: H?T?T?P?\\/?1?\\.?[0-9]?\\r?|` +
    ` HTTP\\/1\\.[0-9]\\r\\n(?:${field})*(?:${name}(?::${value})?)?\\r?)?)$`,
);

const namesClose = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i;
const namesKeepAlive = /(?:^|,)[\t ]*keep-alive[\t ]*(?:,|$)/i;

const requestLineEnd = " HTTP/1.1\r\n".length;
const headEnd = Buffer.of(0x0d, 0x0a, 0x0d, 0x0a);

/** Returns the length of the head at the beginning of the bytes, with its empty line; -1 if its end is not among them. */
export function headLength(bytes: Buffer): number {
  const end = bytes.indexOf(headEnd);
  return end === -1 ? -1 : end + headEnd.length;
}

/** Parses a head with its empty line and nothing behind it. Returns null if it is not simple. */
export function readSimpleHead(text: string): SimpleHead | null {
  const match = text.length > maxHeadBytes ? null : wholeHead.exec(text);
  if (match === null) return null;
  const [, method, target] = match as unknown as [string, string, string];
  const from = method.length + 1 + target.length + requestLineEnd;
  const httpVersion = text[from - "0\r\n".length] === "0" ? "1.0" : "1.1";
  const { rawHeaders, bodyBytes, expectation, isLast } = readFields(text, from, text.length - 2, httpVersion === "1.0");
  if (rawHeaders.length > 2 * maxFields || Number.isNaN(bodyBytes)) return null;
  return { method, target, httpVersion, rawHeaders, bodyBytes, expectation, isLast };
}

/**
 * Parses the request line of a simple head of HTTP/1.1 with a target in origin form, without its line end. Returns null for
 * others.
 */
export function readOriginLine(line: string): { readonly method: string; readonly target: string } | null {
  const match = originLine.exec(line);
  return match === null ? null : { method: match[1] as string, target: match[2] as string };
}

/** Returns whether the text, which has no end of a head, may be the beginning of a simple one. */
export function mayBecomeSimple(text: string): boolean {
  return text.length < maxHeadBytes && begunHead.test(text);
}

/** Parses a packet as one complete request, not in chunks and without Expect. Returns null if it is anything else. */
export function readSimpleRequest(packet: Buffer): SimpleRequest | null {
  return (endsLikeHead(packet) ? readWhole(packet, packet.length) : null) ?? readWhole(packet, headLength(packet));
}

/** Most requests have no body, and to look at the end is cheaper than to search for the end of the head. */
function endsLikeHead(packet: Buffer): boolean {
  const { length } = packet;
  return packet[length - 1] === 0x0a && packet[length - 2] === 0x0d && packet[length - 3] === 0x0a;
}

function readWhole(packet: Buffer, headBytes: number): SimpleRequest | null {
  const head = headBytes === -1 ? null : readSimpleHead(packet.toString("latin1", 0, headBytes));
  if (head === null || head.bodyBytes === null || head.expectation !== null) return null;
  if (headBytes + head.bodyBytes !== packet.length) return null;
  const { method, target, httpVersion, rawHeaders, isLast } = head;
  return { method, target, httpVersion, rawHeaders, body: packet.subarray(headBytes), isLast };
}

/** Returns how many bytes the empty lines in front of a request take (RFC 9112, 2.2). */
export function emptyLineBytes(bytes: Buffer): number {
  let at = 0;
  while (bytes[at] === 0x0d && bytes[at + 1] === 0x0a) at += 2;
  return at;
}

/** Returns whether there is nothing but empty lines, which some clients send after a body (RFC 9112, 2.2). */
export function isEmptyLines(bytes: Buffer): boolean {
  return bytes[0] === 0x0d && emptyLineBytes(bytes) === bytes.length;
}

/** `bodyBytes` is NaN if a header makes the request other than simple. */
function readFields(text: string, from: number, to: number, isVersion0: boolean) {
  const rawHeaders: string[] = [];
  let bodyBytes = -1;
  let isChunked = false;
  let expectation: string | null = null;
  let isLast = false;
  let keepsAlive = !isVersion0;
  for (let at = from; at < to; ) {
    const colon = text.indexOf(":", at);
    const end = text.indexOf("\r\n", colon);
    const name = text.slice(at, colon);
    const value = trimBlanks(text, colon + 1, end);
    rawHeaders.push(name, value);
    at = end + 2;
    switch (specialName(name)) {
      case null:
        break;
      case "content-length":
        bodyBytes = bodyBytes === -1 && /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
        break;
      case "connection":
      // RFC 9110 knows none, but clients send it, and Node obeys it.
      case "proxy-connection":
        isLast ||= value === "close" || namesClose.test(value);
        keepsAlive ||= namesKeepAlive.test(value);
        break;
      case "transfer-encoding":
        if (isChunked || value.toLowerCase() !== "chunked") bodyBytes = Number.NaN;
        isChunked = true;
        break;
      case "expect":
        expectation = expectation === null ? value : `${expectation}, ${value}`;
        break;
      default:
        bodyBytes = Number.NaN;
    }
  }
  // A length beside an encoding is refused, and HTTP/1.0 has neither chunks nor a status 100.
  const ofChunks = bodyBytes === -1 && !isVersion0 ? null : Number.NaN;
  if (isVersion0 && expectation !== null) bodyBytes = Number.NaN;
  const framing = isChunked ? ofChunks : Math.max(0, bodyBytes);
  return { rawHeaders, bodyBytes: framing, expectation, isLast: isLast || !keepsAlive };
}

/** Returns the name of a header that Node's parser acts on, in lower case; null for others, mostly by their length. */
function specialName(name: string): string | null {
  const special = specialNames[name.length];
  return special !== undefined && isNamed(name, special) ? special : null;
}

/** By their length. */
const specialNames: readonly (string | undefined)[] = Array.from({ length: 18 }, (_, length) =>
  ["expect", "upgrade", "connection", "content-length", "proxy-connection", "transfer-encoding"].find(
    (name) => name.length === length,
  ),
);
