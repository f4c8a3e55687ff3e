// Fields that speak of one connection and end with it (RFC 9110, 7.6.1), in either direction. They include every field
// that Node refuses to send over HTTP/2 as connection-specific.
import { trimBlanks } from "../core/blanks.ts";

const hopByHop: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authorization",
  "proxy-authenticate",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
]);

const none: ReadonlySet<string> = new Set();

/** What the message's own Connection fields name, in lower case. `rawHeaders` alternates names and values. */
export function connectionOptions(rawHeaders: readonly string[]): ReadonlySet<string> {
  let options: Set<string> | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name === undefined || name.length !== 10 || name.toLowerCase() !== "connection") continue;
    const value = rawHeaders[i + 1] ?? "";
    // What nearly everybody says, and what is never passed on anyway.
    if (value === "keep-alive") continue;
    options ??= new Set();
    for (const option of value.split(",")) options.add(trimBlanks(option).toLowerCase());
  }
  return options ?? none;
}

export function isHopByHop(lowerCaseName: string, options: ReadonlySet<string>): boolean {
  return hopByHop.has(lowerCaseName) || options.has(lowerCaseName);
}
