// Checks what was written against the definition and reports every error, not only the first. Keys that are missing or
// wrong get their defaults. Types are not converted: "80" is not a number, and null is not text.
import { type ConfigError, didYouMean, enumerate, type Origin, valueError } from "./config-error.ts";
import {
  defaultOf,
  type Item,
  isKnown,
  type Keys,
  type Leaf,
  type List,
  type Node,
  type Parsed,
  type Section,
  valueName,
} from "./definition.ts";
import { joinPath, unknownKey } from "./paths.ts";
import { describe, type Raw, type RawEntry } from "./raw.ts";
import { type ParsedConfig, schema } from "./schema.ts";

/** Unknown keys of one section that are reported one by one; the others are counted. Suggestions take time. */
const maxUnknownKeys = 20;

/** Makes the path of a file absolute; where it starts depends on where it was written. */
export type ResolvePath = (path: string, at: Origin) => string;

/** The values are always complete, but may be used only if there are no errors. */
export function validateConfig(
  raw: Raw | undefined,
  resolvePath: ResolvePath = (path) => path,
): { readonly values: ParsedConfig; readonly errors: readonly ConfigError[] } {
  return validateSection(schema, raw, resolvePath);
}

/** The same for another definition than that of the configuration file. */
export function validateSection<K extends Keys>(
  section: Section<K>,
  raw: Raw | undefined,
  resolvePath: ResolvePath,
): { readonly values: Parsed<Section<K>>; readonly errors: readonly ConfigError[] } {
  const validation = new Validation(section, resolvePath);
  // The values are derived from the type of the definition. The validation treats all nodes alike and cannot infer it.
  return { values: validation.validate(section, raw, []) as Parsed<Section<K>>, errors: validation.errors };
}

class Validation {
  readonly errors: ConfigError[] = [];
  readonly #root: Section<Keys>;
  readonly #resolvePath: ResolvePath;

  constructor(root: Section<Keys>, resolvePath: ResolvePath) {
    this.#root = root;
    this.#resolvePath = resolvePath;
  }

  validate(node: Node, raw: Raw | undefined, path: readonly string[]): unknown {
    switch (node.kind) {
      case "leaf":
        return this.#leaf(node, raw ?? defaultOf(node), path);
      case "list":
        return this.#list(node, raw ?? defaultOf(node), path);
      case "section":
        return this.#section(node, raw, path);
    }
  }

  #leaf(leaf: Leaf<unknown>, raw: Raw, path: readonly string[]): unknown {
    const found = raw.kind === "scalar" ? raw.value : "";
    const value = leaf.parse(found);
    if (value === undefined) {
      this.#refuse(raw, path, leaf.hint?.(found) ?? leaf.expected, leaf.isSecret);
      return leaf.parse(leaf.default);
    }
    return leaf.isPath && typeof value === "string" ? this.#resolvePath(value, raw.at) : value;
  }

  #list(list: List<Item>, raw: Raw, path: readonly string[]): unknown {
    if (raw.kind !== "list") {
      this.#refuse(raw, path, `${list.expected}${inBrackets(list, raw)}`);
      return this.validate(list, undefined, path);
    }
    const errorsBefore = this.errors.length;
    const { length } = raw.items;
    if (length < list.minItems || length > list.maxItems) this.#refuse(raw, path, list.expected);
    const items = raw.items.slice(0, list.maxItems);
    const values = items.map((item, i) => this.validate(list.item, item, [...path, String(i)]));
    const flaws = this.errors.length > errorsBefore ? [] : (list.flaws?.(values) ?? []);
    for (const { index, expected } of flaws) {
      const item = index === null ? undefined : items[index];
      if (item === undefined) this.#refuse(raw, path, expected);
      else this.#refuse(item, [...path, String(index)], expected);
    }
    return values;
  }

  #section(section: Section<Keys>, raw: Raw | undefined, path: readonly string[]): unknown {
    const entries = raw?.kind === "mapping" ? raw.entries : [];
    // YAML reads a section whose keys are all commented out as null.
    const isSection = raw === undefined || raw.kind === "mapping" || (raw.kind === "scalar" && raw.value === null);
    if (!isSection) this.#refuseSection(section, raw, path);
    const misspelled = new Set(this.#refuseUnknown(section, entries, path));
    const values: Record<string, unknown> = {};
    for (const [key, child] of Object.entries(section.keys)) {
      const written = entries.find((entry) => entry.key === key)?.value;
      if (
        written === undefined &&
        isSection &&
        child.kind === "leaf" &&
        child.isRequired &&
        !misspelled.has(joinPath([...path, key]))
      ) {
        const at = raw?.at ?? { kind: "default" };
        this.errors.push(valueError(at, joinPath([...path, key]), "nothing", child.expected));
      }
      values[valueName(key, child)] = this.validate(child, written, [...path, key]);
    }
    return values;
  }

  #refuseSection(section: Section<Keys>, raw: Raw, path: readonly string[]): void {
    const isRoot = path.length === 0;
    // A file that is not a configuration may contain anything, secrets too: its content is not shown.
    const found = !isRoot ? describe(raw) : raw.kind === "list" ? "a list" : "text";
    const keys = isRoot ? "keys to values" : enumerate(Object.keys(section.keys), "and");
    const expected = `a mapping of ${keys}${isRoot ? "" : meantKey(section, raw, path)}`;
    this.errors.push(valueError(raw.at, joinPath(path), found, expected));
  }

  /** Returns the keys that were probably meant. */
  #refuseUnknown(section: Section<Keys>, entries: readonly RawEntry[], path: readonly string[]): string[] {
    const unknown = entries.filter(({ key }) => !isKnown(section, key));
    const errors = unknown
      .slice(0, maxUnknownKeys)
      .map(({ key, keyAt }) => unknownKey(keyAt, [...path, key], undefined, this.#root));
    this.errors.push(...errors);
    const next = unknown[maxUnknownKeys];
    if (next !== undefined) {
      const found = `${unknown.length - maxUnknownKeys} more unknown keys`;
      this.errors.push(valueError(next.keyAt, joinPath(path), found, "none"));
    }
    return errors.flatMap(({ about }) => about);
  }

  #refuse(raw: Raw, path: readonly string[], expected: string, isSecret = false): void {
    this.errors.push(valueError(raw.at, joinPath(path), describe(raw, isSecret), expected));
  }
}

/** The end of the message about a value that should be the only item of the list. */
function inBrackets({ item }: List<Item>, raw: Raw): string {
  const isItem = raw.kind === "scalar" && item.kind === "leaf" && item.parse(raw.value) !== undefined;
  return isItem && !item.isSecret ? `; did you mean [${raw.value}]?` : "";
}

/** The end of the message about a value that stands for a section: the first key that may have it. */
function meantKey({ keys }: Section<Keys>, raw: Raw, path: readonly string[]): string {
  if (raw.kind !== "scalar") return "";
  const meant = Object.entries(keys).find(
    ([, child]) => child.kind === "leaf" && !child.isRequired && child.parse(raw.value) !== undefined,
  );
  return meant === undefined ? "" : `; ${didYouMean([joinPath([...path, meant[0]])], "")}`;
}
