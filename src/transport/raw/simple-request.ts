// Reads a packet as one whole request that cannot be read in two ways: a known method, an origin-form target without a
// doubtful character, HTTP/1.1, fields of visible ASCII, a body no longer and no shorter than its one Content-Length.
// Whatever is anything else is not refused here but left to Node's parser, together with all that its connection sends.
import { trimBlanks } from "../../core/blanks.ts";
import { maxFields, maxHeadBytes } from "../../core/head-bounds.ts";
import type { MessageHead } from "../../core/message-check.ts";

export interface SimpleRequest extends Pick<MessageHead, "method" | "target" | "rawHeaders"> {
  readonly body: Buffer;
  /** The client wants the connection to end with the answer. */
  readonly isLast: boolean;
}

// Linear in the head's length: no character can be taken by two neighbouring parts.
const head =
  /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (\/[A-Za-z0-9\-._~!$&'()*+,;=:@%/?]*) HTTP\/1\.1\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e]*\r\n)+\r\n/;

const requestLineEnd = " HTTP/1.1\r\n".length;

/** Null if it is not simple. */
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

/** The bytes of the body are NaN if a field asks for more than one request and its answer. */
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

/**
 * Fields that Node's parser acts on, in lower case; null for all others. By length first: most names are none of these.
 */
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
