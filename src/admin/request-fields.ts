// What fields of a request to the admin listener mean: of its body, which is JSON; of the format and the coding of a
// scrape; and of the conditions of a call.
import type { IncomingHttpHeaders } from "node:http";
import type { Precondition } from "./control-plane.ts";

export const jsonType = "application/json; charset=utf-8";

export function isJson(contentType: string | undefined): boolean {
  return /^application\/json *(?:; *charset *= *"?utf-8"? *)?$/i.test(contentType ?? "");
}

/** Whether the head announces a body. */
export function hasBody(headers: IncomingHttpHeaders): boolean {
  return (headers["content-length"] ?? "0") !== "0" || headers["transfer-encoding"] !== undefined;
}

/** Of a call of the API. */
export const maxBodyBytes = 64 * 1024;

// Chooses the text format of a scrape by its Accept field (RFC 9110, section 12.5.1). Every scrape gets one of the two:
// the wrong format is more useful than a 406.

/** Scrapers send fewer than ten ranges, with at most two parameters each. What is beyond is ignored. */
const maxRanges = 100;
const maxParameters = 10;

/** Whether OpenMetrics 1.0 is accepted by name, with a weight at least that of plain text. */
export function wantsOpenMetrics(accept: string | undefined): boolean {
  const ranges = (accept ?? "").split(",", maxRanges).map(parseRange);
  const openMetrics = Math.max(
    0,
    ...ranges.filter((range) => range.type === "application/openmetrics-text" && speaks(range)).map(({ q }) => q),
  );
  return openMetrics > 0 && openMetrics >= textQuality(ranges);
}

/** Whether gzip is accepted, with a weight at least that of the text as it is (RFC 9110, section 12.5.3). */
export function wantsGzip(acceptEncoding: string | undefined): boolean {
  const codings = (acceptEncoding ?? "").split(",", maxRanges).map(parseRange);
  const weightOf = (...names: string[]) => codings.find(({ type }) => names.includes(type))?.q;
  const gzip = weightOf("gzip", "x-gzip") ?? weightOf("*") ?? 0;
  return gzip > 0 && gzip >= (weightOf("identity") ?? 0);
}

interface MediaRange {
  readonly type: string;
  readonly version: string | null;
  readonly q: number;
}

function speaks({ version }: MediaRange): boolean {
  return version === null || version === "1.0.0";
}

/** The weight of text/plain: that of the most specific range that covers it. */
function textQuality(ranges: readonly MediaRange[]): number {
  for (const type of ["text/plain", "text/*", "*/*"]) {
    const matching = ranges.filter((range) => range.type === type);
    if (matching.length > 0) return Math.max(...matching.map(({ q }) => q));
  }
  return 0;
}

function parseRange(text: string): MediaRange {
  const [type = "", ...parameters] = text.split(";", 1 + maxParameters).map((part) => part.trim().toLowerCase());
  const value = (name: string) =>
    parameters.find((parameter) => parameter.startsWith(`${name}=`))?.slice(name.length + 1) ?? null;
  return { type, version: value("version")?.replaceAll('"', "") ?? null, q: quality(value("q")) };
}

/** A missing weight is 1. A malformed one counts as 0, not acceptable. */
function quality(text: string | null): number {
  if (text === null) return 1;
  return /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(text) ? Number(text) : 0;
}

/** The conditions of a call (RFC 9110, section 13.1): If-Match and If-None-Match, about the revision of a rule. */
export function entityTag(revision: number): string {
  return `"${revision}"`;
}

/** Longer lists are no condition that a client of this API writes. */
const maxLength = 1_024;

/** Null: they are not well-formed, or there are both. A weak tag never matches (RFC 9110, section 8.8.3.2). */
export function readCondition(ifMatch: string | undefined, ifNoneMatch: string | undefined): Precondition | null {
  if (ifMatch === undefined && ifNoneMatch === undefined) return { kind: "none" };
  if (ifNoneMatch !== undefined)
    return ifMatch === undefined && ifNoneMatch.trim() === "*" ? { kind: "missing" } : null;
  if (ifMatch === undefined || ifMatch.length > maxLength) return null;
  if (ifMatch.trim() === "*") return { kind: "exists" };
  const tags = ifMatch.split(",").map((tag) => tag.trim());
  if (!tags.every((tag) => /^(?:W\/)?"[!#-~]*"$/.test(tag))) return null;
  const strong = tags.map((tag) => /^"(0|[1-9]\d{0,15})"$/.exec(tag)?.[1]);
  return { kind: "revisions", revisions: strong.flatMap((digits) => (digits === undefined ? [] : [Number(digits)])) };
}
