// Converts the head of an HTTP/2 request to the form of HTTP/1.1: pseudo-headers become the request line and Host, and
// cookie headers are joined (RFC 9113, 8.2.3). Repairs nothing: a contradiction is kept, and core/message-check.ts
// refuses it.
import type { HeaderList } from "./header-list.ts";
import { hasBlankAround, type MessageHead } from "./message-check.ts";

/** Converts a head with pseudo-headers, which come first (RFC 9113, 8.3). */
export function readHttp2Head(rawHead: HeaderList): Pick<MessageHead, "method" | "target" | "rawHeaders"> {
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
    else if (name === ":authority") {
      authority = value;
      rawHeaders.push("host", value);
    } else if (name.startsWith(":")) continue;
    // A Host that repeats the authority is dropped; with another one there are two, which is refused.
    else if (name === "host" && value === authority) continue;
    else if (name !== "cookie" || hasBlankAround(value)) rawHeaders.push(name, value);
    else if (cookieAt !== -1) rawHeaders[cookieAt] += `; ${value}`;
    else {
      cookieAt = rawHeaders.length + 1;
      rawHeaders.push(name, value);
    }
  }
  return { method, target, rawHeaders };
}
