// The fields of an upstream's response that go on to the client: in their order, spelling and number, less what
// concerns only the upstream's connection and less what the gateway alone says. A 429's Retry-After is taken out and
// handed over, because the client must hear the longest of all waits.
import { gatewayResponseFields } from "../core/fields.ts";
import { connectionOptions, isHopByHop } from "./hop-by-hop.ts";
import { BadTransferEncoding } from "./upstream-error.ts";

export interface UpstreamResponseFields {
  readonly fields: string[];
  /** Of a 429, as the upstream wrote it. */
  readonly retryAfter: readonly string[];
}

/**
 * Throws a BadTransferEncoding. `rawFields`: names and values alternating, as bytes. They become characters one to one and back, so bytes stay bytes.
 */
export function downstreamResponseFields(rawFields: readonly Buffer[], status: number): UpstreamResponseFields {
  const received = rawFields.map((field) => field.toString("latin1"));
  const options = connectionOptions(received);
  const fields: string[] = [];
  const retryAfter: string[] = [];
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i] ?? "";
    const value = withoutWhiteSpaceBehind(received[i + 1] ?? "");
    const lower = name.toLowerCase();
    if (gatewayResponseFields.has(lower)) continue;
    // Taken off with the connection it belongs to, another coding would leave its bytes behind as content.
    if (lower === "transfer-encoding" && value.toLowerCase() !== "chunked") throw new BadTransferEncoding();
    if (lower === "content-length") {
      // RFC 9110, 8.6: a 204 and an interim response have none. Everywhere else it is the framing, whatever Connection
      // names.
      if (status >= 200 && status !== 204) fields.push(name, value);
    } else if (lower === "retry-after" && status === 429) {
      retryAfter.push(value);
    } else if (!isHopByHop(lower, options)) {
      fields.push(name, value);
    }
  }
  return { fields, retryAfter };
}

/**
 * It is no part of the value (RFC 9110, 5.5), and undici's parser leaves it there. Not trimEnd: that takes a byte of
 * 0xa0 too.
 */
function withoutWhiteSpaceBehind(value: string): string {
  let end = value.length;
  while (value[end - 1] === " " || value[end - 1] === "\t") end -= 1;
  return value.slice(0, end);
}

/**
 * The reason phrase as bytes, one a character. undici reads it as UTF-8; what is none is lost, and a reason may be
 * empty.
 */
export function downstreamReason(statusText: string): string {
  return statusText.includes("\ufffd") ? "" : Buffer.from(statusText).toString("latin1");
}
