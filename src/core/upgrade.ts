// Decides which requests may switch to another protocol (RFC 9110, 7.8): only to those in the configuration, because
// inside a protocol that carries HTTP, such as h2c, requests would be neither counted nor checked. All others are
// handled as ordinary HTTP.
import { type HeaderList, headerValues } from "./headers.ts";
import type { MessageHead } from "./message-check.ts";

/** Returns the protocols in the Upgrade headers, in their order and spelling. */
export function upgradeProtocols(rawHeaders: HeaderList): string[] {
  const protocols = headerValues(rawHeaders, "upgrade").flatMap((value) => value.split(","));
  return protocols.map((protocol) => protocol.trim()).filter((protocol) => protocol !== "");
}

/** No client offers more. Splitting 16 KB of commas would take a millisecond. */
const maxOfferLength = 256;

/** `protocols` are in lower case. All that are offered must be among them, because the upstream may choose any. */
export function mayUpgrade({ rawHeaders, method, httpVersion }: MessageHead, protocols: ReadonlySet<string>): boolean {
  if (method !== "GET" || httpVersion !== "1.1" || mayHaveBody(rawHeaders)) return false;
  if (headerValues(rawHeaders, "upgrade").some(({ length }) => length > maxOfferLength)) return false;
  const offered = upgradeProtocols(rawHeaders);
  return offered.length > 0 && offered.every((protocol) => protocols.has(protocol.toLowerCase()));
}

/** Returns whether a 101 names protocols, all of which were offered. */
export function answersOffer(answer: readonly string[], offered: readonly string[]): boolean {
  const known = new Set(offered.map((protocol) => protocol.toLowerCase()));
  return answer.length > 0 && answer.every((protocol) => known.has(protocol.toLowerCase()));
}

/**
 * Client and gateway must not disagree about where the body ends and the tunnel begins. A length of 0 leaves no doubt, and
 * WebSocket clients write it (Java 17 before its last updates).
 */
function mayHaveBody(rawHeaders: HeaderList): boolean {
  const hasAny = (name: string): boolean => headerValues(rawHeaders, name).length > 0;
  if (hasAny("transfer-encoding") || hasAny("expect")) return true;
  return headerValues(rawHeaders, "content-length").some((length) => length !== "0");
}
