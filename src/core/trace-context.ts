// Which trace a request belongs to (W3C Trace Context, level 2), for the log alone: the fields themselves are the
// client's and go upstream as they came, whatever stands in them.
import type { HeaderList } from "./header-list.ts";

/** version "-" trace-id "-" parent-id "-" flags; a later version may have more behind them (section 4.3). */
const traceparent = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}($|-)/;

/** Null without exactly one valid `traceparent`. `rawHeaders`: names and values alternating, as they came. */
export function readTraceId(rawHeaders: HeaderList): string | null {
  let found: string | null = null;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    // Every request comes through here, and few names are as long.
    if (name.length !== 11 || name.toLowerCase() !== "traceparent") continue;
    if (found !== null) return null;
    found = rawHeaders[i + 1] ?? "";
  }
  const [, version, traceId, end] = (found === null ? null : traceparent.exec(found)) ?? [];
  return traceId === undefined || (version === "00" && end !== "") ? null : traceId;
}
