// The fields a request carries to the upstream: the client's, in their order and spelling, less what concerns only its
// connection to the gateway, plus what the gateway knows of where it came from. The client's are stripped before the
// gateway's are added, so no `Connection:` of a client can name away what the gateway says (RFC 9110, 7.6.1).
import type { ForwardingHeader, Peer } from "../core/client-address.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { connectionOptions, isHopByHop } from "./hop-by-hop.ts";

/**
 * Says where a request came from. Kept from a trusted peer only: from anyone else the upstream would believe it because
 * the gateway passed it on.
 */
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
    // Expect is answered here; Host stands first; the id is set below.
    if (lower === "host" || lower === "expect" || lower === "x-request-id") continue;
    // The message's length is the gateway's business, and the token that was checked goes on, whatever Connection says.
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

/**
 * RFC 9110, 7.6.2: of OPTIONS every intermediary takes one away; at 0 it was not forwarded. What is no number means
 * nothing.
 */
function oneLess(maxForwards: string): string {
  return /^\d{1,15}$/.test(maxForwards) ? `${Number(maxForwards) - 1}` : maxForwards;
}

/** The id to use: a trusted peer's own, if it is one short line of visible characters, else undefined. */
export function trustedRequestId(rawHeaders: readonly string[], peer: Peer): string | undefined {
  if (!peer.isTrusted) return undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== "x-request-id") continue;
    const id = rawHeaders[i + 1] ?? "";
    return /^[\x21-\x7e]{1,200}$/.test(id) ? id : undefined;
  }
  return undefined;
}
