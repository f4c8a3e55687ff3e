// Parses a packet as one complete request with a single interpretation: a known method, an origin-form target without
// doubtful characters, HTTP/1.1, headers of visible ASCII, and a body of exactly its one Content-Length. Any other
// packet is not refused here but left to Node's parser.
import { trimBlanks } from "../../core/blanks.ts";
import { maxFields, maxHeadBytes } from "../../core/head-bounds.ts";
import type { MessageHead } from "../../core/message-check.ts";

export interface SimpleRequest extends Pick<MessageHead, "method" | "target" | "rawHeaders"> {
  readonly body: Buffer;
  /** The client asks to close the connection after the response. */
  readonly isLast: boolean;
}

// Takes linear time: no character matches two adjacent parts.
const head =
  /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (\/[A-Za-z0-9\-._~!$&'()*+,;=:@%/?]*) HTTP\/1\.1\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e]*\r\n)+\r\n/;

const requestLineEnd = " HTTP/1.1\r\n".length;

/** Returns null if the packet is not a simple request. */
export function readSimpleRequest(packet: Buffer): SimpleRequest | null {
  const text = packet.toString("latin1", 0, Math.min(packet.length, maxHeadBytes));
  const match = head.exec(text);
  if (match === null) return null;
  const [{ length: headBytes }, method, target] = match as unknown as [string, string, string];
  const { rawHeaders, bodyBytes, isLast } = readFields(
    text,
    method.length + 1 + target.length + requestLineEnd,
    headBytes - 2,
  );
  if (rawHeaders.length > 2 * maxFields || headBytes + bodyBytes !== packet.length) return null;
  return { method, target, rawHeaders, body: packet.subarray(headBytes), isLast };
}

/** `bodyBytes` is NaN if a header makes the request other than simple. */
function readFields(text: string, from: number, to: number) {
  const rawHeaders: string[] = [];
  let bodyBytes = -1;
  let connection = "";
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
        bodyBytes = bodyBytes === -1 && /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN;
        break;
      case "connection":
        if (connection !== "" || (value !== "keep-alive" && value !== "close")) bodyBytes = Number.NaN;
        connection = value;
        break;
      default:
        bodyBytes = Number.NaN;
    }
  }
  return { rawHeaders, bodyBytes: Math.max(0, bodyBytes), isLast: connection === "close" };
}

/** Returns the name of a header that Node's parser acts on, in lower case; null for others, mostly by their length. */
function specialName(name: string): string | null {
  const { length } = name;
  if (length !== 6 && length !== 7 && length !== 10 && length !== 14 && length !== 16 && length !== 17) return null;
  const lower = name.toLowerCase();
  return special.has(lower) ? lower : null;
}

const special: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);
