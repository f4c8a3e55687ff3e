// Reads the trace ID of a request (W3C Trace Context, level 2) for the log only: the headers are forwarded unchanged,
// valid or not.
import { type HeaderList, headerValues } from "../core/header-list.ts";

/** version "-" trace-id "-" parent-id "-" flags; a later version may append more (section 4.3). */
const traceparent = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}($|-)/;

/** Returns null unless there is exactly one `traceparent` and it is valid. */
export function readTraceId(rawHeaders: HeaderList): string | null {
  const [value, another] = headerValues(rawHeaders, "traceparent");
  if (value === undefined || another !== undefined) return null;
  const [, version, traceId, end] = traceparent.exec(value) ?? [];
  return traceId === undefined || (version === "00" && end !== "") ? null : traceId;
}
