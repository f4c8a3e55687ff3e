// What was written against the definition: every mistake found is reported, none stops the search. What was not written
// takes its default. Nothing is converted that was not meant: "80" is no number, and null is no text.
import { type ConfigError, enumerate, type Origin, showFound } from "./config-error.ts";
import { isKnown, type Keys, type Leaf, type List, type Node, type Section } from "./definition.ts";
import { joinPath, suggestPath } from "./paths.ts";
import type { Raw, RawEntry, Scalar } from "./raw.ts";
import { type ParsedConfig, schema } from "./schema.ts";

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
  const found: Scalar = raw.kind === "scalar" ? raw.value : null;
  const reading = leaf.read(found);
  if (raw.kind === "scalar" && reading.ok) return reading.value;
  // A nullable leaf accepts the null that stands for a list here; what it expects is asked with a value no leaf
  // accepts.
  const refusal = reading.ok ? leaf.read("") : reading;
  const expected = refusal.ok ? "a single value" : refusal.expected;
  errors.push({ kind: "value", at: raw.at, key: joinPath(path), found: describe(raw), expected });
  return undefined;
}

function validateList(
  list: List<Leaf<unknown> | Section<Keys>>,
  raw: Raw | undefined,
  path: readonly string[],
  errors: ConfigError[],
): unknown {
  const key = joinPath(path);
  const refuse = (at: Origin, found: string, expected: string) =>
    errors.push({ kind: "value", at, key, found, expected });
  if (raw === undefined) return defaultItems(list);
  if (raw.kind !== "list") return refuse(raw.at, describe(raw), list.expected);

  const errorsBefore = errors.length;
  if (raw.items.length < list.minItems || raw.items.length > list.maxItems) {
    refuse(raw.at, describe(raw), list.expected);
  }
  const values = raw.items.map((item, i) => validate(list.item, item, [...path, String(i)], errors));
  if (errors.length > errorsBefore) return values;
  for (const { index, expected } of list.flaws(values)) {
    const item = index === null ? undefined : raw.items[index];
    if (item === undefined) refuse(raw.at, describe(raw), expected);
    else
      errors.push({
        kind: "value",
        at: item.at,
        key: joinPath([...path, String(index)]),
        found: describe(item),
        expected,
      });
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
    errors.push({ kind: "value", at: raw.at, key: joinPath(path), found, expected });
  }
  for (const { key, keyAt } of entries ?? []) {
    if (isKnown(section, key)) continue;
    const unknown = [...path, key];
    const known = Object.keys(section.keys);
    errors.push({ kind: "unknown key", at: keyAt, key: joinPath(unknown), suggestion: suggestPath(unknown), known });
  }
  const values: Record<string, unknown> = {};
  for (const [key, child] of Object.entries(section.keys)) {
    values[key] = validate(child, entries?.find((entry) => entry.key === key)?.value, [...path, key], errors);
  }
  return values;
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

function describe(raw: Raw): string {
  switch (raw.kind) {
    case "scalar":
      return showFound(raw.value);
    case "list":
      return describeList(raw.items);
    case "mapping":
      return "a mapping";
  }
}

function describeList(items: readonly Raw[]): string {
  if (items.length === 0) return "an empty list";
  const shown = items.flatMap((item) => (item.kind === "scalar" ? [showFound(item.value)] : []));
  return items.length <= 3 && shown.length === items.length ? `[${shown.join(", ")}]` : `a list of ${items.length}`;
}
