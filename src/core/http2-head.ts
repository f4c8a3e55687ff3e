// The head of an HTTP/2 request as the facts every request is decided on: pseudo fields become what HTTP/1.1 has in its
// request line and Host, crumbs of a cookie become one (RFC 9113, 8.2.3). Nothing is repaired: what contradicts itself
// stays visible, and is refused where every head is checked.
import type { HeaderList } from "./header-list.ts";
import { hasBlankAround } from "./message-check.ts";

export interface Http2Head {
  readonly method: string;
  readonly target: string;
  /** Host comes first. */
  readonly rawHeaders: string[];
}

/** The size of a list of fields counts each with 32 bytes on top (RFC 9113, 6.5.2). */
const bytesOnTop = 32;

/** `rawHead`: pseudo-header fields included, as they came. */
export function readHttp2Head(rawHead: HeaderList): Http2Head {
  let method = "";
  let target = "";
  let authority: string | null = null;
  const rawHeaders: string[] = [];
  let cookieAt = -1;
  for (let i = 0; i < rawHead.length; i += 2) {
    const name = rawHead[i] ?? "";
    const value = rawHead[i + 1] ?? "";
    if (name === ":method") method = value;
    else if (name === ":path") target = value;
    else if (name === ":authority") authority = value;
    else if (name.startsWith(":")) continue;
    else if (name !== "cookie" || hasBlankAround(value)) rawHeaders.push(name, value);
    else if (cookieAt !== -1) rawHeaders[cookieAt] += `; ${value}`;
    else {
      cookieAt = rawHeaders.length + 1;
      rawHeaders.push(name, value);
    }
  }
  return { method, target, rawHeaders: authority === null ? rawHeaders : withHost(authority, rawHeaders) };
}

/** A Host of the same text says nothing new; another one stays, and two are refused. */
function withHost(authority: string, rawHeaders: HeaderList): string[] {
  const fields = ["host", authority];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    if (name !== "host" || value !== authority) fields.push(name, value);
  }
  return fields;
}

export function http2HeadBytes(rawHead: HeaderList): number {
  let bytes = 0;
  for (const text of rawHead) bytes += text.length;
  return bytes + (rawHead.length / 2) * bytesOnTop;
}
