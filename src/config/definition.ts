// What a definition of the configuration is made of: leaves (one scalar), lists and sections. Everything else is
// derived from it: the check of a file, the names of environment variables, the JSON Schema, the documentation.
import type { Scalar } from "./raw.ts";

export type Node = Leaf<unknown> | List<Leaf<unknown> | Section<Keys>> | Section<Keys>;

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
  /** The bounds or the words, for the documentation; empty where a sentence is needed. */
  readonly allowed: string;
  readonly json: JsonSchema;
  read(value: Scalar): Reading<T>;
}

export type Reading<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly expected: string };

export interface List<N extends Leaf<unknown> | Section<Keys>> {
  readonly kind: "list";
  readonly item: N;
  /** For a list of sections: as many sections, each with its own defaults. */
  readonly default: readonly Scalar[] | number;
  readonly description: string;
  readonly minItems: number;
  readonly maxItems: number;
  /** What the list has to be, for when it is none or has too few or too many items. */
  readonly expected: string;
  /** What is wrong with items that are each right by themselves. */
  flaws(values: readonly unknown[]): readonly Flaw[];
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
        ? { readonly [P in keyof K]: Parsed<K[P]> }
        : never;

export function section<const K extends Keys>(description: string, keys: K): Section<K> {
  return { kind: "section", description, keys };
}

/** A list of scalars. `item.default` means nothing here. */
export function listOf<T>(
  item: Leaf<T>,
  list: {
    readonly default: readonly Scalar[];
    readonly description: string;
    readonly minItems: number;
    readonly maxItems: number;
    readonly expected: string;
    flaws(values: readonly NoInfer<T>[]): readonly Flaw[];
  },
): List<Leaf<T>> {
  return { kind: "list", item, ...list };
}

export function isKnown(node: Section<Keys>, key: string): boolean {
  return Object.hasOwn(node.keys, key);
}
