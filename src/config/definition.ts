// The parts of a definition of the configuration: leaves (one scalar each), lists and sections, and how one is found by its
// path. The validation, the names of environment variables, the JSON Schema and docs/configuration.md are derived from it.
import type { Raw, RawList, Scalar } from "./written.ts";

export type Node = (Leaf<unknown> | List<ListItem> | Section<Keys>) & {
  /** Left out where the configuration in effect is shown, unless it was written. */
  readonly isShownIfWritten?: true;
};

export type ListItem = Leaf<unknown> | Section<Keys>;

/** Look keys up with `isKnown`: inherited names such as `constructor` are not keys. */
export interface Keys {
  readonly [key: string]: Node;
}

/** `W`: as it would be written in the file. */
export interface Leaf<T, W extends Scalar = Scalar> {
  readonly kind: "leaf";
  readonly default: W;
  readonly description: string;
  /** How a value from the environment is read: `text` unchanged, `plain` as in YAML (a number, a boolean). */
  readonly form: "text" | "plain";
  readonly isNullable: boolean;
  /** Whether the value is the path of a file, which is made absolute. */
  readonly isPath: boolean;
  /** Whether it must be written. The default is then an example. */
  readonly isRequired?: true;
  /** Whether messages must not show the value. */
  readonly isSecret?: true;
  /** Whether a secret value is shown if it is the name of a listed token. */
  readonly mayBeTokenName?: true;
  /** The accepted values, in words. */
  readonly expected: string;
  readonly json: JsonSchema;
  /** Undefined if the value is not accepted. The empty text never is. */
  parse(value: Scalar): T | undefined;
  /** A more helpful text than `expected` for a value that is not accepted. */
  hint?(value: Scalar): string | undefined;
}

/** Parsed to milliseconds; the name of the parsed value ends in "Ms". */
export interface Duration<T extends number | "auto" | null = number, W extends Scalar = Scalar> extends Leaf<T, W> {
  readonly unit: "Ms";
}

/** An item of a default list, as it would be written in the file; null is a section with all its defaults. */
type DefaultItem = Scalar | Readonly<Record<string, Scalar>>;

export interface List<N extends ListItem> {
  readonly kind: "list";
  readonly item: N;
  readonly default: readonly DefaultItem[];
  readonly description: string;
  readonly minItems: number;
  readonly maxItems: number;
  /** What is accepted, in words: for a value that is not a list, or has too few or too many items. */
  readonly expected: string;
  /** Finds errors among items that are each valid by themselves. */
  flaws?(values: readonly unknown[]): readonly Flaw[];
}

export interface Flaw {
  /** Null for the list as a whole. */
  readonly index: number | null;
  readonly expected: string;
}

export interface Section<K extends Keys> {
  readonly kind: "section";
  readonly description: string;
  readonly keys: K;
  readonly wordsOfOthers: WordsOfOthers;
}

/** Keys of other programs, separated by blanks: the keys of the section that are meant by them, or what to say instead. */
export type WordsOfOthers = Readonly<Record<string, readonly string[] | string>>;

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** The values a definition yields. */
export type Parsed<N> =
  N extends Leaf<infer T>
    ? T
    : N extends List<infer I>
      ? readonly Parsed<I>[]
      : N extends Section<infer K>
        ? { readonly [P in keyof K as K[P] extends { readonly unit: "Ms" } ? `${P & string}Ms` : P]: Parsed<K[P]> }
        : never;

/** What may be written for a definition, as an object. */
export type WrittenOf<N> =
  N extends Leaf<unknown, infer W>
    ? W
    : N extends List<infer I>
      ? readonly WrittenOf<I>[]
      : N extends Section<infer K>
        ? { readonly [P in keyof K as K[P] extends { readonly isRequired: true } ? P : never]: WrittenOf<K[P]> } & {
            readonly [P in keyof K as K[P] extends { readonly isRequired: true } ? never : P]?: WrittenOf<K[P]>;
          }
        : never;

export function section<const K extends Keys>(
  description: string,
  keys: K,
  wordsOfOthers: WordsOfOthers = {},
): Section<K> {
  return { kind: "section", description, keys, wordsOfOthers };
}

export function shownIfWritten<N extends Node>(node: N): N {
  return { ...node, isShownIfWritten: true };
}

/** The default is used as an example only. */
export function required<N extends Leaf<unknown>>(leaf: N): N & { readonly isRequired: true } {
  return { ...leaf, isRequired: true };
}

/** Messages do not show the value. */
export function secret<N extends Leaf<unknown>>(leaf: N): N {
  return { ...leaf, isSecret: true };
}

/** The default of the item itself is not used. */
export function listOf<N extends ListItem>(
  item: N,
  maxItems: number,
  rule: {
    readonly default?: readonly DefaultItem[];
    readonly minItems?: number;
    /** The word for the items, from which `expected` is made if it is absent. */
    readonly items?: string;
    readonly expected?: string;
    flaws?(values: readonly Parsed<N>[]): readonly Flaw[];
  },
): (description: string) => List<N> {
  const { items, minItems = 0, ...list } = rule;
  const expected = `a list of ${minItems === 0 ? "at most" : `${minItems} to`} ${maxItems} ${items}`;
  return (description) => ({ kind: "list", item, default: [], minItems, maxItems, expected, description, ...list });
}

/** The default in the form of a written value. */
export function defaultOf(node: List<ListItem>): RawList;
export function defaultOf(node: Leaf<unknown> | List<ListItem>): Raw;
export function defaultOf(node: Leaf<unknown> | List<ListItem>): Raw {
  const at = { kind: "default" } as const;
  if (node.kind === "leaf") return { kind: "scalar", at, value: node.default };
  return { kind: "list", at, items: node.default.map(rawDefault) };
}

function rawDefault(value: DefaultItem): Raw {
  const at = { kind: "default" } as const;
  if (typeof value !== "object" || value === null) return { kind: "scalar", at, value };
  const entries = Object.entries(value).map(([key, each]) => ({ key, keyAt: at, value: rawDefault(each) }));
  return { kind: "mapping", at, entries };
}

/** The name of the parsed value: that of the key, with the unit if it is converted. */
export function valueName(key: string, node: Node): string {
  return "unit" in node ? `${key}${node.unit}` : key;
}

export function isKnown(node: Section<Keys>, key: string): boolean {
  return Object.hasOwn(node.keys, key);
}

export function childOf(node: Node, key: string): Node | undefined {
  switch (node.kind) {
    case "section":
      return isKnown(node, key) ? node.keys[key] : undefined;
    case "list":
      return /^(0|[1-9]\d{0,3})$/.test(key) ? node.item : undefined;
    case "leaf":
      return undefined;
  }
}

export function nodeAt(root: Node | undefined, path: readonly string[]): Node | undefined {
  return path.reduce<Node | undefined>((node, key) => (node === undefined ? node : childOf(node, key)), root);
}

interface DefinitionEntry {
  readonly path: readonly string[];
  readonly node: Leaf<unknown> | List<Leaf<unknown>>;
}

/** Every key that has a value, in the order of the definition. A list of sections is represented by its first item. */
export function allEntries(node: Node, path: readonly string[] = []): DefinitionEntry[] {
  switch (node.kind) {
    case "leaf":
      return [{ path, node }];
    case "list":
      return isListOfLeaves(node) ? [{ path, node }] : allEntries(node.item, [...path, "0"]);
    case "section":
      return Object.entries(node.keys).flatMap(([key, child]) => allEntries(child, [...path, key]));
  }
}

export function isListOfLeaves(list: List<Leaf<unknown> | Section<Keys>>): list is List<Leaf<unknown>> {
  return list.item.kind === "leaf";
}
