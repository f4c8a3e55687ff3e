// The kinds of values a key can have. Each says what it accepts once for a person (`expected`) and once for an editor
// (`json`); the reader is the judge, the JSON Schema may be more lenient but never stricter.
import { enumerate } from "./config-error.ts";
import type { JsonSchema, Leaf, Reading } from "./definition.ts";
import type { Scalar } from "./raw.ts";
import { durationPattern, formatDuration, formatSize, parseDuration, parseSize, sizePattern } from "./units.ts";

type Range = readonly [from: number, to: number];

export function wholeNumber(byDefault: number, [from, to]: Range, description: string): Leaf<number> {
  const json = { type: "integer", minimum: from, maximum: to };
  return leaf(byDefault, description, { json, allowed: `${from} to ${to}` }, (value) =>
    typeof value === "number" && Number.isInteger(value) && value >= from && value <= to
      ? accepted(value)
      : rejected(`a whole number from ${from} to ${to}${isQuotedNumber(value) ? ", without quotes" : ""}`),
  );
}

export function flag(byDefault: boolean, description: string): Leaf<boolean> {
  return leaf(byDefault, description, { json: { type: "boolean" }, allowed: "true, false" }, (value) =>
    typeof value === "boolean" ? accepted(value) : rejected("true or false"),
  );
}

/** One of a closed set. `later` are words people know from elsewhere, which are not supported yet. */
export function choice<const W extends string | number>(
  byDefault: W,
  words: readonly W[],
  description: string,
  later: readonly string[] = [],
): Leaf<W> {
  return leaf<W>(byDefault, description, { json: { enum: words }, allowed: words.join(", ") }, (value) => {
    const word = words.find((candidate) => candidate === value);
    if (word !== undefined) return accepted(word);
    const known = enumerate(words.map(String));
    return rejected(later.includes(String(value)) ? `${known} (${value} is not supported yet)` : known);
  });
}

export function duration(byDefault: string, [fromMs, toMs]: Range, description: string): Leaf<number> {
  const allowed = `${fromMs === 0 ? "0" : formatDuration(fromMs)} to ${formatDuration(toMs)}`;
  const withUnit: JsonSchema = { type: "string", pattern: durationPattern };
  // Nothing needs no unit, where nothing is allowed.
  const json: JsonSchema = fromMs === 0 ? { anyOf: [withUnit, { enum: [0, "0"] }] } : withUnit;
  return leaf(byDefault, description, { json, allowed }, (value) => {
    if (typeof value === "number" && value !== 0) {
      return rejected(`a duration with its unit, such as "${value > 0 ? Math.ceil(value) : 1}s"`);
    }
    const ms = value === 0 ? 0 : typeof value === "string" ? parseDuration(value) : undefined;
    return ms !== undefined && ms >= fromMs && ms <= toMs
      ? accepted(ms)
      : rejected(`a duration from ${allowed}, such as "${byDefault}"`);
  });
}

export function size(byDefault: string, [fromBytes, toBytes]: Range, description: string): Leaf<number> {
  const json: JsonSchema = {
    anyOf: [
      { type: "string", pattern: sizePattern },
      { type: "integer", minimum: fromBytes, maximum: toBytes },
    ],
  };
  const allowed = `${formatSize(fromBytes)} to ${formatSize(toBytes)}`;
  return leaf(byDefault, description, { json, allowed }, (value) => {
    const bytes = typeof value === "number" ? value : typeof value === "string" ? parseSize(value) : undefined;
    return bytes !== undefined && Number.isInteger(bytes) && bytes >= fromBytes && bytes <= toBytes
      ? accepted(bytes)
      : rejected(`a size from ${allowed}, such as "${byDefault}"`);
  });
}

/** Free text that `parse` understands; undefined means it does not. */
export function text<T>(
  byDefault: string,
  rule: {
    readonly expected: string;
    readonly allowed?: string;
    readonly json?: JsonSchema;
    parse(text: string): T | undefined;
  },
  description: string,
): Leaf<T> {
  const json = { type: "string", ...rule.json };
  const read = (value: Scalar): Reading<T> => {
    const parsed = typeof value === "string" ? rule.parse(value) : undefined;
    return parsed === undefined ? rejected(rule.expected) : accepted(parsed);
  };
  return { ...leaf(byDefault, description, { json, allowed: rule.allowed ?? "" }, read), form: "text" };
}

/** The path of a file, or none. */
export function filePath(description: string): Leaf<string | null> {
  const json = { type: ["string", "null"], minLength: 1 };
  const read = (value: Scalar): Reading<string | null> =>
    value === null || (typeof value === "string" && value !== "" && !value.includes("\0"))
      ? accepted(value)
      : rejected("the path of a file, or null");
  return { ...leaf(null, description, { json, allowed: "" }, read), form: "text", isNullable: true };
}

/** Text that `parse` understands, or none. */
export function optionalText<T>(
  rule: { readonly expected: string; readonly json?: JsonSchema; parse(text: string): T | undefined },
  description: string,
): Leaf<T | null> {
  const json = { ...rule.json, type: ["string", "null"] };
  const read = (value: Scalar): Reading<T | null> => {
    const parsed = typeof value === "string" ? rule.parse(value) : value === null ? null : undefined;
    return parsed === undefined ? rejected(`${rule.expected}, or null`) : accepted(parsed);
  };
  return { ...leaf(null, description, { json, allowed: "" }, read), form: "text", isNullable: true };
}

function leaf<T>(
  byDefault: Scalar,
  description: string,
  accepts: { readonly json: JsonSchema; readonly allowed: string },
  read: (value: Scalar) => Reading<T>,
): Leaf<T> {
  return { kind: "leaf", default: byDefault, description, form: "plain", isNullable: false, ...accepts, read };
}

const isQuotedNumber = (value: Scalar): boolean => typeof value === "string" && /^[0-9]+$/.test(value);
const accepted = <T>(value: T): Reading<T> => ({ ok: true, value });
const rejected = (expected: string): Reading<never> => ({ ok: false, expected });
