// Selects the fields of an upstream's response that the client gets: in their order, spelling and number, without hop-by-hop
// fields and without those that only the gateway sets. The Retry-After of a 429 is returned apart, because the client
// gets the larger of it and the gateway's own.
import { gatewayResponseFields } from "./fields.ts";
import type { HeaderLines } from "./header-lines.ts";
import type { HeaderList } from "./header-list.ts";
import { connectionOptions, isHopByHop } from "./hop-by-hop.ts";

export interface UpstreamResponseFields {
  readonly lines: HeaderLines;
  /** A Content-Length is among the lines. */
  readonly hasLength: boolean;
  /** Of a 429, as the upstream wrote it. */
  readonly retryAfter: readonly string[];
}

export function downstreamResponseFields(received: HeaderList, status: number): UpstreamResponseFields {
  const options = connectionOptions(received);
  let lines = "";
  let hasLength = false;
  const retryAfter: string[] = [];
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i] ?? "";
    const value = received[i + 1] ?? "";
    const lower = name.toLowerCase();
    if (gatewayResponseFields.has(lower)) continue;
    if (lower === "content-length") {
      // A 204 and an interim response have none (RFC 9110, 8.6). Elsewhere it frames the body, even if Connection names it.
      if (status < 200 || status === 204) continue;
      hasLength = true;
      lines += `${name}: ${value}\r\n`;
    } else if (lower === "retry-after" && status === 429) {
      retryAfter.push(value);
    } else if (!isHopByHop(lower, options)) {
      lines += `${name}: ${value}\r\n`;
    }
  }
  return { lines, hasLength, retryAfter };
}
