// The configuration as it was written, before anything is checked: scalars, lists and mappings, each knowing where it
// stands. Mappings are lists of entries, not objects, so that a key such as `__proto__` is a key like any other.
import type { Origin } from "./config-error.ts";

export type Scalar = string | number | boolean | null;

export type Raw = RawScalar | RawList | RawMapping;

export interface RawScalar {
  readonly kind: "scalar";
  readonly at: Origin;
  readonly value: Scalar;
}

export interface RawList {
  readonly kind: "list";
  readonly at: Origin;
  readonly items: readonly Raw[];
}

export interface RawMapping {
  readonly kind: "mapping";
  readonly at: Origin;
  readonly entries: readonly RawEntry[];
}

export interface RawEntry {
  readonly key: string;
  readonly keyAt: Origin;
  readonly value: Raw;
}

/** What stands at a path, if anything does. */
export function rawAt(raw: Raw | undefined, path: readonly string[]): Raw | undefined {
  const [head, ...rest] = path;
  if (head === undefined || raw === undefined) return raw;
  switch (raw.kind) {
    case "scalar":
      return undefined;
    case "list":
      return rawAt(raw.items[Number(head)], rest);
    case "mapping":
      return rawAt(raw.entries.find((entry) => entry.key === head)?.value, rest);
  }
}

/** Where the value of the first of these keys that was written stands; keys are dotted. */
export function originOf(raw: Raw | undefined, ...keys: readonly string[]): Origin {
  return keys.map((key) => rawAt(raw, key.split("."))?.at).find((at) => at !== undefined) ?? { kind: "default" };
}
