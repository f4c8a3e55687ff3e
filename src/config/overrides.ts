// Values given outside the file, by the environment or on the command line: text for one path, read as the key at that
// path wants it, and put over what stood there. A section keeps the keys that are not named; a list is replaced.
import { type ConfigError, didYouMean, enumerate, type Origin, valueError } from "./config-error.ts";
import { isKnown, type Keys, type Leaf, type List, type Node, type Section } from "./definition.ts";
import { childOf, isListOfLeaves, joinPath, nodeAt, suggestPaths } from "./paths.ts";
import type { Raw, RawEntry, RawList, Scalar } from "./raw.ts";
import { schema } from "./schema.ts";
import { readYaml } from "./yaml-source.ts";

export interface Override {
  readonly path: readonly string[];
  readonly text: string;
  readonly at: Origin;
}

/** The later override wins. Those that cannot be placed are reported and left out. */
export function applyOverrides(
  base: Raw | undefined,
  overrides: readonly Override[],
  errors: ConfigError[],
): Raw | undefined {
  return overrides.reduce<Raw | undefined>((raw, { path, text, at }) => {
    const node = nodeAt(path);
    if (node === undefined || path.length === 0) {
      errors.push(unknownPath(path, at));
      return raw;
    }
    const value = readText(node, { path, text, at }, errors);
    return value === undefined ? raw : place(schema, raw, path, { value, path, errors });
  }, base);
}

function unknownPath(path: readonly string[], at: Origin): ConfigError {
  const known = path.findIndex((_, i) => nodeAt(path.slice(0, i + 1)) === undefined);
  const parent = nodeAt(path.slice(0, known));
  const keys =
    parent?.kind === "section" ? Object.keys(parent.keys) : parent?.kind === "list" ? ["an index"] : ["none"];
  const meant = suggestPaths(path);
  const message = `unknown key; ${didYouMean(meant, `expected ${enumerate(keys)}`)}`;
  return { at, key: joinPath(path), message, about: meant };
}

/** Undefined if it could not be read; the reason is in `errors`. */
function readText(node: Node, { path, text, at }: Override, errors: ConfigError[]): Raw | undefined {
  if (node.kind === "leaf") return { kind: "scalar", at, value: readScalar(node, text) };
  if (node.kind === "list" && isListOfLeaves(node) && !text.trim().startsWith("[")) {
    const parts = text.trim() === "" ? [] : text.split(",");
    return {
      kind: "list",
      at,
      items: parts.map((part) => ({ kind: "scalar", at, value: readScalar(node.item, part.trim()) })),
    };
  }
  const reading = readYaml(text, "", { at, path });
  errors.push(...reading.errors);
  return reading.errors.length > 0 ? undefined : (reading.raw ?? { kind: "scalar", at, value: null });
}

/** As YAML would read it, where the key holds no text: `::` is an address, and no mapping. */
function readScalar(leaf: Leaf<unknown>, text: string): Scalar {
  if (leaf.isNullable && (text === "" || text === "null")) return null;
  if (leaf.form === "text") return text;
  if (/^[-+]?\d{1,15}$/.test(text)) return Number(text);
  return text === "true" || text === "false" ? text === "true" : text;
}

interface Placement {
  readonly value: Raw;
  /** The whole path, for errors. */
  readonly path: readonly string[];
  readonly errors: ConfigError[];
}

function place(node: Node, base: Raw | undefined, rest: readonly string[], placement: Placement): Raw {
  const [head, ...tail] = rest;
  if (head === undefined) return node.kind === "section" ? merge(node, base, placement) : placement.value;
  const child = childOf(node, head);
  if (child === undefined) return base ?? placement.value;
  if (node.kind === "section") {
    const entries = base?.kind === "mapping" ? base.entries : [];
    const value = place(child, entries.find(({ key }) => key === head)?.value, tail, placement);
    return withEntry(entries, { key: head, keyAt: placement.value.at, value }, base?.at ?? placement.value.at);
  }
  const list = base?.kind === "list" || node.kind !== "list" ? base : defaultList(node);
  const items = list?.kind === "list" ? list.items : [];
  const index = Number(head);
  if (index > items.length) {
    const expected = `an index from 0 to ${items.length}`;
    placement.errors.push(valueError(placement.value.at, joinPath(placement.path), head, expected));
    return list ?? placement.value;
  }
  const value = place(child, items[index], tail, placement);
  // One item too many is the fault of whoever added it.
  return {
    kind: "list",
    at: index === items.length ? placement.value.at : (list?.at ?? value.at),
    items: [...items.slice(0, index), value, ...items.slice(index + 1)],
  };
}

/** A section given as a whole, such as `--set 'listen={port: 80}'`. */
function merge(section: Section<Keys>, base: Raw | undefined, placement: Placement): Raw {
  const { value } = placement;
  if (value.kind !== "mapping" || base?.kind !== "mapping") return value;
  return value.entries.reduce<Raw>((merged, entry) => {
    const entries = merged.kind === "mapping" ? merged.entries : [];
    const child = isKnown(section, entry.key) ? section.keys[entry.key] : undefined;
    const before = entries.find(({ key }) => key === entry.key)?.value;
    const after = child === undefined ? entry.value : place(child, before, [], { ...placement, value: entry.value });
    return withEntry(entries, { ...entry, value: after }, merged.at);
  }, base);
}

function withEntry(entries: readonly RawEntry[], entry: RawEntry, at: Origin): Raw {
  return { kind: "mapping", at, entries: [...entries.filter(({ key }) => key !== entry.key), entry] };
}

/** The default, as if it had been written: what an index refers to when the file has no such list. */
function defaultList(list: List<Leaf<unknown> | Section<Keys>>): RawList {
  const at: Origin = { kind: "default" };
  const items: Raw[] =
    typeof list.default === "number"
      ? Array.from({ length: list.default }, () => ({ kind: "mapping", at, entries: [] }))
      : list.default.map((value) => ({ kind: "scalar", at, value }));
  return { kind: "list", at, items };
}
