// The trace id of a traceparent, by the examples and rules of W3C Trace Context, level 2, sections 3.2 and 4.3.
import { expect, test } from "vitest";
import { readTraceId } from "../../src/exchange/recorded-exchange.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const rest = "00f067aa0ba902b7-01";
const valid = `00-${traceId}-${rest}`;

test.each([
  ["the specification's own", valid],
  ["flags that nobody knows", `00-${traceId}-00f067aa0ba902b7-ff`],
  ["a later version", `01-${traceId}-${rest}`],
  ["a later version with more behind it", `cc-${traceId}-${rest}-what-the-future-brings`],
])("%s has one", (_, value) => {
  expect(readTraceId(["Host", "x", "TraceParent", value])).toBe(traceId);
});

test.each([
  ["none", []],
  ["another field of that length", ["tracep-rent", valid]],
  ["an empty one", ["traceparent", ""]],
  ["two, even if they agree", ["traceparent", valid, "Traceparent", valid]],
  ["version ff", ["traceparent", `ff-${traceId}-${rest}`]],
  ["more behind version 00", ["traceparent", `${valid}-more`]],
  ["a later version that does not go on with a dash", ["traceparent", `01-${traceId}-${rest}.more`]],
  ["capitals", ["traceparent", valid.toUpperCase()]],
  ["a trace id of zeros", ["traceparent", `00-${"0".repeat(32)}-${rest}`]],
  ["a parent id of zeros", ["traceparent", `00-${traceId}-${"0".repeat(16)}-01`]],
  ["a trace id that is too short", ["traceparent", `00-${traceId.slice(1)}-${rest}`]],
  ["a trace id that is no hexadecimal number", ["traceparent", `00-${traceId.replace("4", "g")}-${rest}`]],
  ["two in one line", ["traceparent", `${valid}, ${valid}`]],
  ["blanks around it", ["traceparent", ` ${valid}`]],
])("%s: null", (_, rawHeaders) => {
  expect(readTraceId(rawHeaders)).toBeNull();
});
