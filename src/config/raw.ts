// The configuration as it was written, before anything is checked: scalars, lists and mappings, each knowing where it
// stands. Mappings are lists of entries, not objects, so that a key such as `__proto__` is a key like any other.
import { type Origin, showFound } from "./config-error.ts";

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
  return path.reduce<Raw | undefined>((parent, key) => {
    if (parent?.kind === "list") return parent.items[Number(key)];
    return parent?.kind === "mapping" ? parent.entries.find((entry) => entry.key === key)?.value : undefined;
  }, raw);
}

/** Where the value of the first of these keys that was written stands; keys are dotted. */
export function originOf(raw: Raw | undefined, ...keys: readonly string[]): Origin {
  return keys.map((key) => rawAt(raw, key.split("."))?.at).find((at) => at !== undefined) ?? { kind: "default" };
}

/** What was found, as a message shows it. */
export function describe(raw: Raw): string {
  if (raw.kind === "scalar") return showFound(raw.value);
  if (raw.kind === "mapping") return "a mapping";
  const { items } = raw;
  if (items.length === 0) return "an empty list";
  const scalars = items.length <= 3 ? items.filter((item) => item.kind === "scalar") : [];
  return scalars.length === items.length ? `[${scalars.map(describe).join(", ")}]` : `a list of ${items.length}`;
}
