// Applies values from the environment and the command line: text for one path, parsed as its key requires, which replaces
// the value there. A section keeps the keys that are not named; a list is replaced as a whole.
import { type ConfigError, type Origin, valueError } from "./config-error.ts";
import { defaultOf, type Leaf, type Node } from "./definition.ts";
import { childOf, isListOfLeaves, joinPath, nodeAt, unknownKey } from "./paths.ts";
import { type Raw, rawAt, type Scalar } from "./raw.ts";
import { schema } from "./schema.ts";
import { readYaml } from "./yaml-source.ts";

export interface Override {
  readonly path: readonly string[];
  readonly text: string;
  readonly at: Origin;
}

/** The later override wins. An override of an unknown path is reported and ignored. */
export function applyOverrides(
  base: Raw | undefined,
  overrides: readonly Override[],
  errors: ConfigError[],
): Raw | undefined {
  return overrides.reduce<Raw | undefined>((raw, override) => {
    const { path, at } = override;
    const node = nodeAt(path);
    if (node === undefined || path.length === 0) {
      errors.push(unknownKey(at, path, pathByIndex(raw, path)));
      return raw;
    }
    const value = readText(node, override, errors);
    const refuse = (index: string, expected: string) => errors.push(valueError(at, joinPath(path), index, expected));
    return value === undefined ? raw : put(schema, raw, path, value, refuse);
  }, base);
}

/** `policies.0.limit` for `policies.per-ip.limit`, as `check --diff` calls it; undefined if no policy has the name. */
function pathByIndex(raw: Raw | undefined, [list = "", name = "", ...rest]: readonly string[]) {
  const items = rawAt(raw, [list]);
  if (items?.kind !== "list") return undefined;
  const index = items.items.findIndex((item) => {
    const named = rawAt(item, ["name"]);
    return named?.kind === "scalar" && named.value === name;
  });
  const path = [list, String(index), ...rest];
  return index === -1 || nodeAt(path) === undefined ? undefined : path;
}

/** Undefined if the text cannot be parsed; the reason is then in `errors`. */
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

/** Numbers and booleans as in YAML, except for keys whose values are text: `::` is an address, not a mapping. */
function readScalar(leaf: Leaf<unknown>, text: string): Scalar {
  if (leaf.isNullable && (text === "" || text === "null")) return null;
  if (leaf.form === "text") return text;
  if (/^[-+]?\d{1,15}$/.test(text)) return Number(text);
  return text === "true" || text === "false" ? text === "true" : text;
}

type Refuse = (index: string, expected: string) => void;

function put(
  node: Node | undefined,
  base: Raw | undefined,
  [head, ...rest]: readonly string[],
  value: Raw,
  refuse: Refuse,
): Raw {
  if (head === undefined) {
    // A section given as a whole, such as `--set 'listen={port: 80}'`.
    if (node?.kind !== "section" || value.kind !== "mapping" || base?.kind !== "mapping") return value;
    const named = new Set(value.entries.map(({ key }) => key));
    const entries = value.entries.map((entry) => {
      const before = base.entries.find(({ key }) => key === entry.key)?.value;
      return { ...entry, value: put(childOf(node, entry.key), before, [], entry.value, refuse) };
    });
    return { ...base, entries: [...base.entries.filter(({ key }) => !named.has(key)), ...entries] };
  }
  const child = node && childOf(node, head);
  if (node?.kind === "list") {
    // An index refers to the default list if the list was not written.
    const list = base?.kind === "list" ? base : defaultOf(node);
    const { at, items } = list;
    const index = Number(head);
    if (index > items.length) {
      refuse(head, `an index from 0 to ${items.length}`);
      return list;
    }
    const item = put(child, items[index], rest, value, refuse);
    // If the list becomes too long, the error is reported at the item that was added.
    return { kind: "list", at: index === items.length ? value.at : at, items: items.toSpliced(index, 1, item) };
  }
  const entries = base?.kind === "mapping" ? base.entries : [];
  const before = entries.find(({ key }) => key === head)?.value;
  const entry = { key: head, keyAt: value.at, value: put(child, before, rest, value, refuse) };
  const at = base?.at ?? value.at;
  return { kind: "mapping", at, entries: [...entries.filter(({ key }) => key !== head), entry] };
}
