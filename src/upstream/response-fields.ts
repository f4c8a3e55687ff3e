// The fields of an upstream's response that go on to the client: in their order, spelling and number, less what
// concerns only the upstream's connection and less what the gateway alone says. A 429's Retry-After is taken out and
// handed over, because the client must hear the longest of all waits.
import { gatewayResponseFields } from "../core/fields.ts";
import { connectionOptions, isHopByHop } from "./hop-by-hop.ts";

export interface UpstreamResponseFields {
  readonly fields: string[];
  /** Of a 429, as the upstream wrote it. */
  readonly retryAfter: readonly string[];
}

/** `received`: names and values alternating, one character a byte. */
export function downstreamResponseFields(received: readonly string[], status: number): UpstreamResponseFields {
  const options = connectionOptions(received);
  const fields: string[] = [];
  const retryAfter: string[] = [];
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i] ?? "";
    const value = received[i + 1] ?? "";
    const lower = name.toLowerCase();
    if (gatewayResponseFields.has(lower)) continue;
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
