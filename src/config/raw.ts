// The configuration as it was written, before any check: scalars, lists and mappings, each with its place. Mappings are
// lists of entries, not objects, so that `__proto__` is a key like any other.
import { type Origin, showFound, showSecret } from "./config-error.ts";

export type Scalar = string | number | boolean | null;

export type Raw = { readonly at: Origin } & (
  | { readonly kind: "scalar"; readonly value: Scalar }
  | { readonly kind: "list"; readonly items: readonly Raw[] }
  | { readonly kind: "mapping"; readonly entries: readonly RawEntry[] }
);

export type RawList = Extract<Raw, { readonly kind: "list" }>;

export interface RawEntry {
  readonly key: string;
  readonly keyAt: Origin;
  readonly value: Raw;
}

/** The value at a path, if there is one. */
export function rawAt(raw: Raw | undefined, path: readonly string[]): Raw | undefined {
  return path.reduce<Raw | undefined>((parent, key) => {
    if (parent?.kind === "list") return parent.items[Number(key)];
    return parent?.kind === "mapping" ? parent.entries.find((entry) => entry.key === key)?.value : undefined;
  }, raw);
}

/** The place of the first of these keys that was written; keys are dotted. */
export function originOf(raw: Raw | undefined, ...keys: readonly string[]): Origin {
  const places = keys.map((key) => rawAt(raw, key.split("."))?.at);
  return places.find((at) => at !== undefined && at.kind !== "default") ?? { kind: "default" };
}

/** The value as a message shows it. */
export function describe(raw: Raw, isSecret = false): string {
  if (raw.kind === "scalar") return isSecret ? showSecret(raw.value) : showFound(raw.value);
  if (raw.kind === "mapping") return "a mapping";
  const { items } = raw;
  if (items.length === 0) return "an empty list";
  const scalars = items.length <= 3 ? items.filter((item) => item.kind === "scalar") : [];
  return scalars.length === items.length
    ? `[${scalars.map((item) => describe(item, isSecret)).join(", ")}]`
    : `a list of ${items.length}`;
}
