// The kinds of values a key can have. Each says what it accepts once for a person (`expected`) and once for an editor
// (`json`). `parse` decides; the JSON Schema may accept more, but never less.
import { existsSync } from "node:fs";
import { enumerate } from "../core/enumerate.ts";
import { parseAddress, parseHost, parseNetwork } from "./addresses.ts";
import {
  type Duration,
  type Flaw,
  type JsonSchema,
  type Leaf,
  type List,
  listOf,
  shownIfWritten,
} from "./definition.ts";
import type { Scalar } from "./written.ts";

/** Both ends are accepted. `string`: with units, as in the file. */
interface Range<T extends number | string = number> {
  readonly from: T;
  readonly to: T;
}

/** A kind of values gets what is said of the key last: `duration("2s", { from: "1ms", to: "1d" })("Maximum time …")`. */
type Describe<N> = (description: string) => N;

export function wholeNumber(byDefault: number, { from, to }: Range): Describe<Leaf<number, number>> {
  const expected = `a whole number from ${from} to ${to}`;
  return (description) => ({
    ...leaf(byDefault, expected, { type: "integer", minimum: from, maximum: to }, description),
    parse: (value) => (typeof value === "number" ? wholeWithin(value, { from, to }) : undefined),
    hint: (value) => {
      if (typeof value !== "string" || !/^[0-9]+$/.test(value)) return undefined;
      return `${expected}, without ${/^0./.test(value) ? "a leading zero" : "quotes"}`;
    },
  });
}

/** The same, or `auto`. */
export function orAuto<W extends Scalar>(leaf: Duration<number, W>): Duration<number | "auto", W | "auto">;
export function orAuto<T, W extends Scalar>(leaf: Leaf<T, W>, byDefault?: W): Leaf<T | "auto", W | "auto">;
export function orAuto<T, W extends Scalar>(
  leaf: Leaf<T, W>,
  byDefault: W | "auto" = "auto",
): Leaf<T | "auto", W | "auto"> {
  return {
    ...leaf,
    default: byDefault,
    expected: `${leaf.expected}, or auto`,
    json: { anyOf: [leaf.json, { enum: ["auto"] }] },
    parse: (value) => (value === "auto" ? value : leaf.parse(value)),
    hint: (value) => {
      const hint = leaf.hint?.(value);
      return hint === undefined ? undefined : `${hint}, or auto`;
    },
  };
}

export function flag(byDefault: boolean): Describe<Leaf<boolean, boolean>> {
  return (description) => ({
    ...leaf(byDefault, "true or false", { type: "boolean" }, description),
    parse: (value) => (typeof value === "boolean" ? value : undefined),
  });
}

/** YAML 1.1, which Helm and others read, has these words for booleans, and writes them so. */
const switches: ReadonlyMap<Scalar, string> = new Map([
  [true, "on"],
  [false, "off"],
]);

/**
 * One of a closed set; `true` and `false` are `on` and `off` where these are words of it. `later` are words that people know
 * from elsewhere and that are not supported yet.
 */
export function choice<const W extends string | number>(
  byDefault: W,
  words: readonly W[],
  later: readonly string[] = [],
): Describe<Leaf<W, W>> {
  const expected = enumerate(words.map(String));
  const written = [...switches].filter(([, word]) => words.some((each) => each === word)).map(([value]) => value);
  return (description) => ({
    ...leaf(byDefault, expected, { enum: [...words, ...written] }, description),
    parse: (value) => words.find((word) => word === (switches.get(value) ?? value)),
    hint: (value) => (later.includes(String(value)) ? `${expected} (${value} is not supported yet)` : undefined),
  });
}

export function duration<const From extends string>(
  byDefault: string,
  written: { readonly from: From; readonly to: string },
): Describe<Duration<number, string | (From extends "0" ? 0 : never)>> {
  const expected = `a duration from ${written.from} to ${written.to}`;
  const range = rangeOf(written, parseDuration);
  const withUnit: JsonSchema = { type: "string", pattern: durationPattern };
  // 0 needs no unit, where it is accepted.
  const json: JsonSchema = range.from === 0 ? { anyOf: [withUnit, { enum: [0, "0"] }] } : withUnit;
  return (description) => ({
    ...leaf(byDefault, expected, json, description),
    unit: "Ms",
    parse: (value) => wholeWithin(value === 0 ? 0 : onText(value, parseDuration), range),
    hint: (value) =>
      typeof value === "number" && value !== 0
        ? `a duration with its unit, such as "${value > 0 ? Math.ceil(value) : 1}s"`
        : `${expected}${howWritten(value, parseDuration, durationUnits)}, such as "${byDefault}"`,
  });
}

/** A percentage, as a share of 1. */
export function percentage(byDefault: string, { from, to }: Range): Describe<Leaf<number, string>> {
  const expected = `a percentage from ${from}% to ${to}%`;
  const parse = (text: string): number | undefined => {
    const percent = /^[0-9]{1,3}(\.[0-9]{1,3})?%$/.test(text) ? Number(text.slice(0, -1)) : Number.NaN;
    return percent >= from && percent <= to ? percent / 100 : undefined;
  };
  return (description) => ({
    ...leaf(byDefault, expected, { type: "string", pattern: "^[0-9]{1,3}(\\.[0-9]{1,3})?%$" }, description),
    parse: (value) => onText(value, parse),
    hint: () => `${expected}, such as "${byDefault}"`,
  });
}

export function size(byDefault: string, written: Range<string>): Describe<Leaf<number, string | number>> {
  const expected = `a size from ${written.from} to ${written.to}`;
  const range = rangeOf(written, parseSize);
  const withUnit: JsonSchema = { type: "string", pattern: sizePattern };
  const json: JsonSchema = { anyOf: [withUnit, { type: "integer", minimum: range.from, maximum: range.to }] };
  return (description) => ({
    ...leaf(byDefault, expected, json, description),
    parse: (value) => wholeWithin(typeof value === "number" ? value : onText(value, parseSize), range),
    hint: (value) => `${expected}${howWritten(value, parseSize, sizeUnits)}, such as "${byDefault}"`,
  });
}

/** For "1.5GiB" or "32Mi", which may look as if they were within the range. */
function howWritten(value: Scalar, parse: (text: string) => number | undefined, units: readonly string[]): string {
  if (typeof value !== "string" || parse(value) !== undefined) return "";
  return `, a whole number with ${enumerate(units)}`;
}

/** Text that matches the pattern and that `parse` accepts, as far as they are given. */
export function text<T extends string = string>(
  byDefault: string,
  rule: {
    readonly expected: string;
    readonly pattern?: string;
    readonly json?: JsonSchema;
    parse?(text: string): T | undefined;
  },
): Describe<Leaf<T, string>> {
  const { expected, pattern = "", parse = (text) => text as T } = rule;
  const json = { type: "string", ...rule.json, ...(pattern === "" ? {} : { pattern }) };
  const matching = new RegExp(pattern);
  const accepted = (text: string): T | undefined => (matching.test(text) ? parse(text) : undefined);
  return (description) => ({
    ...leaf(byDefault, expected, json, description),
    form: "text",
    parse: (value) => onText(value, accepted),
    hint: (value) =>
      typeof value !== "string" && value !== null && accepted(String(value)) !== undefined
        ? `${expected}, in quotes`
        : undefined,
  });
}

/** The same, or null, which is the default. */
export function orNull<W extends Scalar>(leaf: Duration<number, W>): Duration<number | null, W | null>;
export function orNull<T, W extends Scalar>(leaf: Leaf<T, W>): Leaf<T | null, W | null>;
export function orNull<T, W extends Scalar>({
  parse,
  expected,
  json: { type, enum: words, ...json },
  ...leaf
}: Leaf<T, W>): Leaf<T | null, W | null> {
  return {
    ...leaf,
    default: null,
    isNullable: true,
    expected: `${expected}, or null`,
    json: {
      ...json,
      ...(type === undefined ? {} : { type: [type, "null"] }),
      ...(Array.isArray(words) ? { enum: [...words, null] } : {}),
    },
    parse: (value) => (value === null ? null : parse(value)),
  };
}

/** May be left out; the value is null then. */
export function optional<W extends Scalar>(leaf: Duration<number, W>): Duration<number | null, W | null>;
export function optional<T, W extends Scalar>(leaf: Leaf<T, W>): Leaf<T | null, W | null>;
export function optional<T, W extends Scalar>(leaf: Leaf<T, W>): Leaf<T | null, W | null> {
  return shownIfWritten({ ...orNull(leaf), expected: leaf.expected });
}

/** The path of a file, or none. `system`: the files of which the first that exists is meant by this word; else it is a path. */
export function filePath(description: string, system: readonly string[] = []): Leaf<string | null, string | null> {
  const isWord = (value: Scalar): boolean => value === "system" && system.length > 0;
  const expected = system.length > 0 ? "system, the path of a file" : "the path of a file";
  const parse = (path: string): string | undefined =>
    isWord(path) ? system.find((file) => existsSync(file)) : /^$|^~|\0/.test(path) ? undefined : path;
  const leaf = orNull(text("", { expected, json: { pattern: "^[^~]" }, parse })(description));
  const hint = (value: Scalar): string | undefined => {
    if (isWord(value)) return `the path of a file, since there is none of ${enumerate(system)}`;
    return String(value).startsWith("~") ? `the path of a file without ~, which only shells read` : leaf.hint?.(value);
  };
  return { ...leaf, isPath: true, hint };
}

export function host(byDefault: string, description: string): Leaf<string, string> {
  const expected = "an IP address (without brackets) or a host name";
  return text(byDefault, { expected, parse: parseHost })(description);
}

export const network = text("0.0.0.0", {
  expected: 'an IP address or a network such as "10.0.0.0/8"',
  parse: parseNetwork,
})("An IPv4 or IPv6 address, or a network in CIDR notation.");

/** Empty by default. `flaws`: see `listOf`. */
export function networkList(description: string, flaws: List<Leaf<string>>["flaws"] = () => []): List<typeof network> {
  return listOf(network, 1024, { items: "addresses or networks", flaws })(description);
}

/** Hosts with or without a port; none by default. `items`: the word for them. `port`: that of the examples. */
export function addressList({ items, port }: { readonly items: string; readonly port: number }) {
  const examples = `"10.0.0.1:${port}" or "[::1]:${port}"`;
  const address = text("", {
    expected: `a host name or an IP address, with a port or without, such as ${examples}`,
    parse: parseAddress,
  })('A host, or a host and a port joined by ":".');
  return listOf(address, 64, { items, flaws: repeatedItems });
}

function leaf<const W extends Scalar>(byDefault: W, expected: string, json: JsonSchema, description: string) {
  const kinds = { kind: "leaf", form: "plain", isNullable: false, isPath: false } as const;
  return { ...kinds, default: byDefault, expected, json, description };
}

const onText = <T>(value: Scalar, parse: (text: string) => T | undefined): T | undefined =>
  typeof value === "string" ? parse(value) : undefined;

const rangeOf = ({ from, to }: Range<string>, parse: (text: string) => number | undefined): Range => ({
  from: parse(from) ?? Number.NaN,
  to: parse(to) ?? Number.NaN,
});

const wholeWithin = (value: number | undefined, { from, to }: Range): number | undefined =>
  Number.isInteger(value) && Number(value) >= from && Number(value) <= to ? value : undefined;

/** An upstream address that is repeated would get twice the requests. */
export function repeatedItems(items: readonly (string | number)[]): Flaw[] {
  return items.flatMap((item, index) =>
    items.indexOf(item) < index ? [{ index, expected: `no second ${JSON.stringify(item)}; remove it` }] : [],
  );
}

const msPerUnit = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

const bytesPerUnit = {
  B: 1,
  kB: 1000,
  KB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
  TB: 1000 ** 4,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
} as const;

const durationUnits: readonly string[] = Object.keys(msPerUnit);

/** Those that a size of this program is written with; the others are accepted. */
const sizeUnits: readonly string[] = ["KiB", "MiB", "GiB"];

/** What `parseDuration` and `parseSize` accept, for the JSON Schema. */
export const durationPattern = "^[0-9]{1,12}(ms|s|m|h|d)$";

export const sizePattern = "^[0-9]{1,15}(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$";

/** Milliseconds; undefined if the text is not a duration. "0" needs no unit. */
export function parseDuration(text: string): number | undefined {
  return text === "0" ? 0 : parseQuantity(text, durationPattern, msPerUnit);
}

/** Bytes; undefined if the text is not a size. */
export function parseSize(text: string): number | undefined {
  return parseQuantity(text, sizePattern, bytesPerUnit);
}

/** In the largest unit of which it is a whole number. */
export function formatDuration(ms: number): string {
  const units = Object.entries(msPerUnit).filter(([, each]) => ms % each === 0);
  const [unit, each] = units.at(-1) ?? ["ms", 1];
  return `${ms / each}${unit}`;
}

function parseQuantity(text: string, pattern: string, units: Readonly<Record<string, number>>): number | undefined {
  if (!new RegExp(pattern).test(text)) return undefined;
  const digits = /^[0-9]+/.exec(text)?.[0] ?? "";
  const quantity = Number(digits) * (units[text.slice(digits.length)] ?? Number.NaN);
  return Number.isSafeInteger(quantity) ? quantity : undefined;
}
