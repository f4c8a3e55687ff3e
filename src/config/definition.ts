// What a definition of the configuration is made of: leaves (one scalar), lists and sections. Everything else is
// derived from it: the check of a file, the names of environment variables, the JSON Schema, docs/configuration.md.
import type { Raw, RawList, Scalar } from "./raw.ts";

export type Node = Leaf<unknown> | List<Item> | Section<Keys>;
export type Item = Leaf<unknown> | Section<Keys>;

/** Only own keys count: a definition is asked with `Object.hasOwn`. */
export interface Keys {
  readonly [key: string]: Node;
}

export interface Leaf<T> {
  readonly kind: "leaf";
  /** As it would be written in the file. */
  readonly default: Scalar;
  readonly description: string;
  /**
   * How a value from the environment is taken: `text` as it is, `plain` as YAML would read it (a number, a boolean).
   */
  readonly form: "text" | "plain";
  readonly isNullable: boolean;
  /** The path of a file, which is made absolute. */
  readonly isPath: boolean;
  /** What is accepted, in words. */
  readonly expected: string;
  readonly json: JsonSchema;
  /** Undefined: it is not accepted, as the empty text never is. */
  parse(value: Scalar): T | undefined;
  /** What is said in place of `expected` of a value that is not accepted. */
  hint?(value: Scalar): string | undefined;
}

/** In milliseconds; the name of the value ends in "Ms". */
export interface Duration extends Leaf<number> {
  readonly unit: "Ms";
}

export interface List<N extends Item> {
  readonly kind: "list";
  readonly item: N;
  /** As they would be written; null stands for a section with all its defaults. */
  readonly default: readonly Scalar[];
  readonly description: string;
  readonly minItems: number;
  readonly maxItems: number;
  /** What the list has to be, for when it is none or has too few or too many items. */
  readonly expected: string;
  /** What is wrong with items that are each right by themselves. */
  flaws?(values: readonly unknown[]): readonly Flaw[];
}

export interface Flaw {
  /** Null: the list as a whole. */
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

/** `item.default` means nothing here. */
export function listOf<N extends Item>(
  item: N,
  {
    bounds: [minItems, maxItems],
    items,
    ...list
  }: {
    readonly default: readonly Scalar[];
    readonly bounds: readonly [from: number, to: number];
    /** What the items are called, where `expected` is not said. */
    readonly items?: string;
    readonly expected?: string;
    flaws?(values: readonly Parsed<N>[]): readonly Flaw[];
  },
  description: string,
): List<N> {
  const expected = `a list of ${minItems === 0 ? "at most" : `${minItems} to`} ${maxItems} ${items}`;
  return { kind: "list", item, minItems, maxItems, expected, description, ...list };
}

/** The value of a key that was not written, as if it had been. */
export function defaultOf(node: List<Item>): RawList;
export function defaultOf(node: Leaf<unknown> | List<Item>): Raw;
export function defaultOf(node: Leaf<unknown> | List<Item>): Raw {
  const at = { kind: "default" } as const;
  if (node.kind === "leaf") return { kind: "scalar", at, value: node.default };
  return { kind: "list", at, items: node.default.map((value) => ({ kind: "scalar", at, value })) };
}

/** The name of the value: that of the key, and the unit it is converted to. */
export function valueName(key: string, node: Node): string {
  return "unit" in node ? `${key}${node.unit}` : key;
}

export function isKnown(node: Section<Keys>, key: string): boolean {
  return Object.hasOwn(node.keys, key);
}
