// What RFC 9112 makes of an upstream's bytes as the answer to one request: a whole response, one that breaks off, or
// none. A client may be given the first, must see the second break, and never sees anything of the third.
import {
  type Body,
  type Field,
  type Head,
  readChunks,
  readHead,
  readLength,
  valuesIn,
  visible,
} from "./strict-message.ts";

export type StrictResponse =
  | { readonly kind: "whole"; readonly status: number; readonly fields: readonly Field[]; readonly body: string }
  /** The head is sound, the body is not. */
  | { readonly kind: "broken"; readonly status: number; readonly body: string }
  | { readonly kind: "none" };

const none: StrictResponse = { kind: "none" };

/** `isClosed`: the upstream ended the connection in order behind the bytes. */
export function readStrictResponse(bytes: string, method: string, isClosed: boolean): StrictResponse {
  for (let at = 0; ; ) {
    const head = readResponseHead(bytes, at);
    const status = Number(/^HTTP\/1\.\d ([1-9]\d\d)(?: .*)?$/.exec(head?.line ?? "")?.[1]);
    if (head === null || !visible.test(head.line) || Number.isNaN(status) || status === 101) return none;
    if (status >= 200) return readBody(bytes, head, status, method, isClosed);
    at = head.end;
  }
}

/**
 * RFC 9112, 2.2: a single LF may end a line. The first empty line ends the head, however it is written. Interim responses are
 * not read so: what follows is on the same connection.
 */
function readResponseHead(bytes: string, start: number): Head | null {
  const empty = /\r?\n\r?\n/.exec(bytes.slice(start));
  if (empty === null) return null;
  const end = start + empty.index + empty[0].length;
  const lines = bytes.slice(start, end).replace(/\r?\n/g, "\r\n");
  const head = lines.startsWith("1", 9) ? readHead(bytes.slice(start, end), 0) : readHead(lines, 0);
  return head && { ...head, end };
}

function readBody(bytes: string, head: Head, status: number, method: string, isClosed: boolean): StrictResponse {
  const { fields, end } = head;
  const lengths = valuesIn(fields, "content-length");
  const encodings = valuesIn(fields, "transfer-encoding");
  // RFC 9112, 6.3: equal lengths may be taken for one.
  const framings = new Set(lengths.map(Number)).size + encodings.length;
  const isClear = framings <= 1 && lengths.every((length) => /^\d{1,15}$/.test(length));
  if (!isClear || encodings.some((encoding) => encoding.toLowerCase() !== "chunked")) return none;
  // RFC 9112, 6.1: HTTP/1.0 has no chunks.
  if (encodings.length > 0 && head.line.startsWith("HTTP/1.0")) return none;
  if (method === "HEAD" || status === 204 || status === 304) return { kind: "whole", status, fields, body: "" };
  const body = bodyOf(bytes, end, lengths[0], encodings[0], isClosed);
  return body.isWhole
    ? { kind: "whole", status, fields, body: body.text }
    : { kind: "broken", status, body: body.text };
}

function bodyOf(
  bytes: string,
  start: number,
  length: string | undefined,
  encoding: string | undefined,
  isClosed: boolean,
): Body {
  if (encoding !== undefined) return readChunks(bytes, start);
  if (length !== undefined) return readLength(bytes, start, Number(length));
  return { text: bytes.slice(start), end: bytes.length, isWhole: isClosed };
}
