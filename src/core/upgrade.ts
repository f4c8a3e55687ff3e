// Which requests may leave HTTP for another protocol (RFC 9110, 7.8). Only what the configuration names does: inside a
// protocol that carries HTTP, such as h2c, requests would pass neither counted nor checked. Everything else is served
// as ordinary HTTP.
import type { HeaderList } from "./header-list.ts";

/** In the order and spelling they were offered; empty if none was. `rawHeaders` alternates names and values. */
export function upgradeProtocols(rawHeaders: HeaderList): string[] {
  const protocols: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== "upgrade") continue;
    for (const protocol of (rawHeaders[i + 1] ?? "").split(",")) {
      if (protocol.trim() !== "") protocols.push(protocol.trim());
    }
  }
  return protocols;
}

export interface UpgradeFacts {
  readonly rawHeaders: HeaderList;
  readonly method: string;
  readonly httpVersion: string;
}

/** `protocols` are in lower case. One that is not among them spoils the offer: the upstream could choose it. */
export function mayUpgrade({ rawHeaders, method, httpVersion }: UpgradeFacts, protocols: ReadonlySet<string>): boolean {
  if (method !== "GET" || httpVersion !== "1.1" || announcesBody(rawHeaders)) return false;
  const offered = upgradeProtocols(rawHeaders);
  return offered.length > 0 && offered.every((protocol) => protocols.has(protocol.toLowerCase()));
}

/** Whether a 101 switches to what was asked for, and says to what. */
export function answersOffer(answer: readonly string[], offered: readonly string[]): boolean {
  const known = new Set(offered.map((protocol) => protocol.toLowerCase()));
  return answer.length > 0 && answer.every((protocol) => known.has(protocol.toLowerCase()));
}

/** Whatever its length: where a body ends and a tunnel begins is nothing to have two opinions about. */
function announcesBody(rawHeaders: HeaderList): boolean {
  return rawHeaders.some((field, i) => i % 2 === 0 && /^(content-length|transfer-encoding|expect)$/i.test(field));
}
