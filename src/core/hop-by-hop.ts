// Hop-by-hop fields (RFC 9110, 7.6.1), which are removed in both directions. Every field that Node refuses to send over
// HTTP/2 is among them.
import { trimBlanks } from "./blanks.ts";
import type { HeaderList } from "./header-list.ts";

export const hopByHopNames: ReadonlySet<string> = new Set([
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

/**
 * Fields that stay even if Connection names them: those by which the request was judged and logged, those that identify
 * its client, and those that trace its route. A sender must not name fields for all recipients (RFC 9110, 7.6.1).
 */
const endToEndNames: ReadonlySet<string> = new Set([
  ...["content-length", "authorization", "cookie", "origin", "access-control-request-method"],
  ...["max-forwards", "via", "traceparent", "tracestate"],
]);

export const noOptions: ReadonlySet<string> = new Set();

/** The names in the message's Connection fields, in lower case. */
export function connectionOptions(rawHeaders: HeaderList): ReadonlySet<string> {
  let options: Set<string> | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name === undefined || name.length !== 10 || name.toLowerCase() !== "connection") continue;
    const value = rawHeaders[i + 1] ?? "";
    // What most upstreams send. Keep-Alive is removed anyway.
    if (value === "keep-alive") continue;
    options ??= new Set();
    for (const option of value.split(",")) options.add(trimBlanks(option).toLowerCase());
  }
  return options ?? noOptions;
}

export function isHopByHop(lowerCaseName: string, options: ReadonlySet<string>): boolean {
  return hopByHopNames.has(lowerCaseName) || (options.has(lowerCaseName) && !endToEndNames.has(lowerCaseName));
}
