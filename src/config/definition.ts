// The parts of a definition of the configuration: leaves (one scalar each), lists and sections. The validation, the names
// of environment variables, the JSON Schema and docs/configuration.md are derived from it.
import type { Raw, RawList, Scalar } from "./raw.ts";

export type Node = Leaf<unknown> | List<Item> | Section<Keys>;
export type Item = Leaf<unknown> | Section<Keys>;

/** Look keys up with `isKnown`: inherited names such as `constructor` are not keys. */
export interface Keys {
  readonly [key: string]: Node;
}

export interface Leaf<T> {
  readonly kind: "leaf";
  /** As it would be written in the file. */
  readonly default: Scalar;
  readonly description: string;
  /** How a value from the environment is read: `text` unchanged, `plain` as in YAML (a number, a boolean). */
  readonly form: "text" | "plain";
  readonly isNullable: boolean;
  /** Whether the value is the path of a file, which is made absolute. */
  readonly isPath: boolean;
  /** The accepted values, in words. */
  readonly expected: string;
  readonly json: JsonSchema;
  /** Undefined if the value is not accepted. The empty text never is. */
  parse(value: Scalar): T | undefined;
  /** A more helpful text than `expected` for a value that is not accepted. */
  hint?(value: Scalar): string | undefined;
}

/** Parsed to milliseconds; the name of the parsed value ends in "Ms". */
export interface Duration extends Leaf<number> {
  readonly unit: "Ms";
}

export interface List<N extends Item> {
  readonly kind: "list";
  readonly item: N;
  /** As it would be written in the file; null is a section with all its defaults. */
  readonly default: readonly Scalar[];
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
}

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
        ? { readonly [P in keyof K as K[P] extends Duration ? `${P & string}Ms` : P]: Parsed<K[P]> }
        : never;

export function section<const K extends Keys>(description: string, keys: K): Section<K> {
  return { kind: "section", description, keys };
}

/** The default of the item itself is not used. */
export function listOf<N extends Item>(
  item: N,
  {
    bounds: [minItems, maxItems],
    items,
    ...list
  }: {
    readonly default: readonly Scalar[];
    readonly bounds: readonly [from: number, to: number];
    /** The word for the items, from which `expected` is made if it is absent. */
    readonly items?: string;
    readonly expected?: string;
    flaws?(values: readonly Parsed<N>[]): readonly Flaw[];
  },
  description: string,
): List<N> {
  const expected = `a list of ${minItems === 0 ? "at most" : `${minItems} to`} ${maxItems} ${items}`;
  return { kind: "list", item, minItems, maxItems, expected, description, ...list };
}

/** The default in the form of a written value. */
export function defaultOf(node: List<Item>): RawList;
export function defaultOf(node: Leaf<unknown> | List<Item>): Raw;
export function defaultOf(node: Leaf<unknown> | List<Item>): Raw {
  const at = { kind: "default" } as const;
  if (node.kind === "leaf") return { kind: "scalar", at, value: node.default };
  return { kind: "list", at, items: node.default.map((value) => ({ kind: "scalar", at, value })) };
}

/** The name of the parsed value: that of the key, with the unit if it is converted. */
export function valueName(key: string, node: Node): string {
  return "unit" in node ? `${key}${node.unit}` : key;
}

export function isKnown(node: Section<Keys>, key: string): boolean {
  return Object.hasOwn(node.keys, key);
}
