// What was written against the definition: every mistake found is reported, none stops the search. What was not written
// takes its default. Nothing is converted that was not meant: "80" is no number, and null is no text.
import { type ConfigError, didYouMean, enumerate, valueError } from "./config-error.ts";
import { isKnown, type Keys, type Leaf, type List, type Node, type Section } from "./definition.ts";
import { joinPath, suggestPaths } from "./paths.ts";
import { describe, type Raw, type RawEntry, type Scalar } from "./raw.ts";
import { type ParsedConfig, schema } from "./schema.ts";

/** Of one section. Finding what was meant takes time, and the rest is a file of another kind. */
const maxUnknownKeys = 20;

/** The values are complete and meant to be used only if no error was found. */
export function validateConfig(raw: Raw | undefined): {
  readonly values: ParsedConfig;
  readonly errors: ConfigError[];
} {
  const errors: ConfigError[] = [];
  // The definition's own type says what its values are; the walk cannot say it, since it treats all nodes alike.
  return { values: validate(schema, raw, [], errors) as ParsedConfig, errors };
}

function validate(node: Node, raw: Raw | undefined, path: readonly string[], errors: ConfigError[]): unknown {
  switch (node.kind) {
    case "leaf":
      return validateLeaf(node, raw, path, errors);
    case "list":
      return validateList(node, raw, path, errors);
    case "section":
      return validateSection(node, raw, path, errors);
  }
}

function validateLeaf(
  leaf: Leaf<unknown>,
  raw: Raw | undefined,
  path: readonly string[],
  errors: ConfigError[],
): unknown {
  if (raw === undefined) return readDefault(leaf, leaf.default);
  // The empty text is what no leaf accepts.
  const reading = leaf.read(raw.kind === "scalar" ? raw.value : "");
  if (reading.ok) return reading.value;
  errors.push(valueError(raw.at, joinPath(path), describe(raw), reading.expected));
  return undefined;
}

function validateList(
  list: List<Leaf<unknown> | Section<Keys>>,
  raw: Raw | undefined,
  path: readonly string[],
  errors: ConfigError[],
): unknown {
  if (raw === undefined) return defaultItems(list);
  const refuse = (found: Raw, at: readonly string[], expected: string) =>
    errors.push(valueError(found.at, joinPath(at), describe(found), expected));
  if (raw.kind !== "list") return void refuse(raw, path, list.expected);

  const errorsBefore = errors.length;
  const { length } = raw.items;
  if (length < list.minItems || length > list.maxItems) refuse(raw, path, list.expected);
  const items = raw.items.slice(0, list.maxItems);
  const values = items.map((item, i) => validate(list.item, item, [...path, String(i)], errors));
  if (errors.length > errorsBefore) return values;
  for (const { index, expected } of list.flaws(values)) {
    const item = index === null ? undefined : items[index];
    if (item === undefined) refuse(raw, path, expected);
    else refuse(item, [...path, String(index)], expected);
  }
  return values;
}

function defaultItems(list: List<Leaf<unknown> | Section<Keys>>): unknown[] {
  const { item } = list;
  if (typeof list.default === "number")
    return Array.from({ length: list.default }, () => validate(item, undefined, [], []));
  return list.default.map((value) => (item.kind === "leaf" ? readDefault(item, value) : undefined));
}

function validateSection(
  section: Section<Keys>,
  raw: Raw | undefined,
  path: readonly string[],
  errors: ConfigError[],
): unknown {
  const entries = entriesOf(raw);
  if (entries === undefined && raw !== undefined) {
    const isRoot = path.length === 0;
    const expected = `a mapping${isRoot ? " of keys to values" : ` of ${enumerate(Object.keys(section.keys), "and")}`}`;
    // A file that is no configuration at all may hold anything: nothing of it is repeated.
    const found = isRoot ? (raw.kind === "list" ? "a list" : "text") : describe(raw);
    errors.push(valueError(raw.at, joinPath(path), found, expected));
  }
  const unknown = entries?.filter(({ key }) => !isKnown(section, key)) ?? [];
  errors.push(...unknown.slice(0, maxUnknownKeys).map((entry) => unknownKey(section, entry, path)));
  const next = unknown[maxUnknownKeys];
  if (next !== undefined) {
    const found = `${unknown.length - maxUnknownKeys} more unknown keys`;
    errors.push(valueError(next.keyAt, joinPath(path), found, "none"));
  }
  const values: Record<string, unknown> = {};
  for (const [key, child] of Object.entries(section.keys)) {
    values[key] = validate(child, entries?.find((entry) => entry.key === key)?.value, [...path, key], errors);
  }
  return values;
}

function unknownKey(section: Section<Keys>, { key, keyAt }: RawEntry, path: readonly string[]): ConfigError {
  const meant = suggestPaths([...path, key]);
  const message = `unknown key; ${didYouMean(meant, `expected ${enumerate(Object.keys(section.keys))}`)}`;
  return { at: keyAt, key: joinPath([...path, key]), message, about: meant };
}

/**
 * Undefined if it is no section. A section with all its keys commented out is null to YAML, and an empty section to
 * people.
 */
function entriesOf(raw: Raw | undefined): readonly RawEntry[] | undefined {
  if (raw?.kind === "mapping") return raw.entries;
  return raw?.kind === "scalar" && raw.value === null ? [] : undefined;
}

function readDefault(leaf: Leaf<unknown>, value: Scalar): unknown {
  const reading = leaf.read(value);
  return reading.ok ? reading.value : undefined;
}
