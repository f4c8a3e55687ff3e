// The fields of a request to the upstream: the client's in their order and spelling, without hop-by-hop fields, then the
// gateway's own. The client's are removed before the gateway's are added, so no `Connection:` of a client can remove what
// the gateway adds (RFC 9110, 7.6.1).
import type { ForwardingHeader, Peer } from "../core/client-address.ts";
import { type HeaderList, headerValue } from "../core/header-list.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { connectionOptions, isHopByHop } from "./hop-by-hop.ts";

/** Fields that name a request's origin are kept from trusted peers only: the upstream believes what the gateway passes on. */
const isOriginField = (lower: string): boolean =>
  lower.startsWith("x-forwarded-") || lower === "forwarded" || lower === "x-real-ip";

/** `forwardingHeader`: the one in which trusted peers name the client. */
export function upstreamRequestFields(exchange: Exchange, forwardingHeader: ForwardingHeader): string[] {
  const { rawHeaders, method, peer } = exchange.head;
  const { target, message } = exchange.verdict.parsed;
  // The authority of an absolute-form target replaces Host (RFC 9112, 3.2.2).
  const host = target?.authority ?? message.host;
  // A trusted peer writes the header that is configured, and may pass the other one on as a client wrote it.
  const otherHeader = forwardingHeader === "forwarded" ? "x-forwarded-for" : "forwarded";
  const options = connectionOptions(rawHeaders);
  const fields: string[] = ["Host", host];
  const kept = { forwardedFor: [] as string[], proto: false, host: false };
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    const lower = name.toLowerCase();
    // Expect is answered by the gateway; Host comes first; the id is added below.
    if (lower === "host" || lower === "expect" || lower === "x-request-id") continue;
    // The length frames the body, and the upstream gets the token that was checked, even if Connection names them.
    if (lower !== "content-length" && lower !== "authorization" && isHopByHop(lower, options)) continue;
    if (isOriginField(lower)) {
      if (!peer.isTrusted || lower === otherHeader) continue;
      if (lower === "x-forwarded-for") {
        kept.forwardedFor.push(value);
        continue;
      }
      kept.proto ||= lower === "x-forwarded-proto";
      kept.host ||= lower === "x-forwarded-host";
    }
    fields.push(name, lower === "max-forwards" && method === "OPTIONS" ? oneLess(value) : value);
  }
  fields.push("X-Forwarded-For", [...kept.forwardedFor, peer.text].join(", "));
  if (!kept.proto) fields.push("X-Forwarded-Proto", exchange.transport.scheme);
  if (!kept.host) fields.push("X-Forwarded-Host", host);
  fields.push("Via", "1.1 headgate", "X-Request-Id", exchange.id);
  return fields;
}

/** Each proxy subtracts one for OPTIONS (RFC 9110, 7.6.2); at 0 the request is not forwarded. Ignored if no number. */
function oneLess(maxForwards: string): string {
  return /^\d{1,15}$/.test(maxForwards) ? `${Number(maxForwards) - 1}` : maxForwards;
}

/** The id that a trusted peer sent, if it is short and of visible characters, or undefined. */
export function trustedRequestId(rawHeaders: HeaderList, peer: Peer): string | undefined {
  const id = peer.isTrusted ? headerValue(rawHeaders, "x-request-id") : undefined;
  return id !== undefined && /^[\x21-\x7e]{1,200}$/.test(id) ? id : undefined;
}
