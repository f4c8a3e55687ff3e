// Checks written values against a definition: every error is found, not only the first. Keys that are missing or wrong get
// their defaults. Types are not converted: "80" is not a number, and null is not text. For an unknown key it suggests the one
// that was probably meant.
import { enumerate } from "../core/enumerate.ts";
import {
  allEntries,
  defaultOf,
  isKnown,
  type Keys,
  type Leaf,
  type List,
  type ListItem,
  type Node,
  nodeAt,
  type Parsed,
  type Section,
  valueName,
} from "./definition.ts";
import { fold, movePageOf } from "./move-pages.ts";
import {
  type ConfigError,
  describe,
  didYouMean,
  joinPath,
  type Origin,
  type Raw,
  type RawEntry,
  valueError,
} from "./written.ts";

/** Unknown keys of one section that are reported one by one; the others are counted. Suggestions take time. */
const maxUnknownKeys = 20;

/** Makes the path of a file absolute; where it starts depends on where it was written. */
export type ResolvePath = (path: string, at: Origin) => string;

/** The values are always complete, but may be used only if there are no errors. */
export function validate<K extends Keys>(
  section: Section<K>,
  raw: Raw | undefined,
  resolvePath: ResolvePath = (path) => path,
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

  #list(list: List<ListItem>, raw: Raw, path: readonly string[]): unknown {
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
      .map(({ key, keyAt }) => unknownKey(this.#root, keyAt, [...path, key]));
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
function inBrackets({ item }: List<ListItem>, raw: Raw): string {
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

/** `meantPath`: what was meant, if it is known. */
export function unknownKey(root: Node, at: Origin, path: readonly string[]): ConfigError {
  const known = path.findIndex((_, i) => nodeAt(root, path.slice(0, i + 1)) === undefined);
  const parent = nodeAt(root, path.slice(0, known));
  const words = wordsFor(parent, path[known] ?? "");
  const keys = parent?.kind === "section" ? Object.keys(parent.keys) : [];
  const meant = suggestPaths(path, known, keys, root);
  const expected = parent?.kind === "list" ? "an index" : parent?.kind === "section" ? enumerate(keys) : "none";
  const advice = typeof words === "string" ? words : didYouMean(meant, `expected ${expected}`);
  const page = words === undefined ? undefined : movePageOf(path[known] ?? "");
  return {
    at,
    key: joinPath(path),
    message: `unknown key; ${advice}${page === undefined ? "" : `${advice.endsWith("?") ? " See" : "; see"} ${page}`}`,
    about: meant,
  };
}

/**
 * What was probably meant by a path whose part at `known` is unknown: a similar key of the same section, or the same key in
 * another section.
 */
function suggestPaths(path: readonly string[], known: number, keys: readonly string[], root: Node): string[] {
  const before = path.slice(0, known);
  const [key = "", ...after] = path.slice(known);
  const words = wordsFor(nodeAt(root, before), key);
  const siblings = typeof words === "string" ? [] : (words ?? suggestions(key, keys));
  if (siblings.length > 0) {
    return siblings.map((sibling) => {
      const corrected = [...before, ...sibling.split("."), ...after];
      return joinPath(nodeAt(root, corrected) === undefined ? [...before, ...sibling.split(".")] : corrected);
    });
  }
  const last = path.at(-1)?.toLowerCase();
  const namesakes = allEntries(root).filter((entry) => entry.path.at(-1)?.toLowerCase() === last);
  const below = namesakes.find((entry) => before.every((key, i) => entry.path[i] === key));
  // If several other sections have the key, none is suggested, because it would be a guess.
  const meant = below ?? (namesakes.length === 1 ? namesakes[0] : undefined);
  return meant === undefined ? [] : [joinPath(meant.path)];
}

function wordsFor(section: Node | undefined, key: string) {
  const known = section?.kind === "section" ? Object.entries(section.wordsOfOthers) : [];
  return known.find(([words]) => words.split(" ").map(fold).includes(fold(key)))?.[1];
}

/** The candidate with the smallest distance, at most a third of the name's length; otherwise null. */
export function nearest(name: string, candidates: Iterable<string>): string | null {
  const folded = fold(name);
  if (folded.length === 0 || folded.length > 100) return null;
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(folded.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(folded, fold(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** The nearest; otherwise up to three that have all words of the name, such as `responseTimeout` for `timeout`. */
export function suggestions(name: string, candidates: readonly string[]): string[] {
  const best = nearest(name, candidates);
  if (best !== null) return [best];
  const words = wordsOf(name);
  const longer = candidates.filter((candidate) => words.every((word) => wordsOf(candidate).includes(word)));
  return words.length > 0 && longer.length <= 3 ? longer : [];
}

const wordsOf = (name: string): string[] =>
  name
    .replaceAll(/(?<=[a-z])[A-Z]/g, "_$&")
    .toLowerCase()
    .split(/[_-]+/)
    .filter((word) => word !== "");

function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substituted = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let distance = Math.min(substituted, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        distance = Math.min(distance, (beforePrevious[j - 2] ?? 0) + 1);
      }
      row.push(distance);
    }
    beforePrevious = previous;
    previous = row;
  }
  return previous[b.length] ?? 0;
}
