// Shows the effective configuration, including defaults, in the form in which it could be written into a file, and how two
// of them differ. Values that mean the same, such as 60s and 1m, are no difference. Secrets are masked; names of tokens are
// not secret.
import { stringify } from "yaml";
import type { SettingChange } from "../core/reload.ts";
import {
  defaultOf,
  isListOfLeaves,
  type Keys,
  type Leaf,
  type List,
  type ListItem,
  type Node,
  type Section,
} from "./definition.ts";
import { type Raw, rawAt, type Scalar } from "./written.ts";

/** The names in `auth.tokensFile`. */
type TokenNames = ReadonlySet<string>;

const noNames: TokenNames = new Set();

/** One line for each key of the section. */
export function effectiveLines({ keys }: Section<Keys>, raw: Raw | undefined, tokenNames = noNames): string[] {
  return Object.entries(keys).map(([key, node]) =>
    flow({ [key]: effective(node, rawAt(raw, [key]), tokenNames) }, true).replace(/^\{ (.*) \}$/s, "$1"),
  );
}

export function effective(node: Node, raw?: Raw, tokenNames = noNames): unknown {
  switch (node.kind) {
    case "leaf":
      if (raw?.kind !== "scalar") return node.default;
      if (isMasked(node, raw.value, tokenNames)) return "***";
      // `off` that a reader of YAML 1.1 has written as false.
      return typeof raw.value === "boolean" ? node.parse(raw.value) : raw.value;
    case "list":
      return (raw?.kind === "list" ? raw : defaultOf(node)).items.map((item) => effective(node.item, item, tokenNames));
    case "section":
      return Object.fromEntries(
        Object.entries(node.keys)
          .map(([key, child]) => [key, child, rawAt(raw, [key])] as const)
          .filter(([, child, written]) => !child.isShownIfWritten || isGiven(written))
          .map(([key, child, written]) => [key, effective(child, written, tokenNames)]),
      );
  }
}

function isMasked({ isSecret, mayBeTokenName }: Leaf<unknown>, value: Scalar, tokenNames: TokenNames): boolean {
  return isSecret === true && value !== null && !(mayBeTokenName && tokenNames.has(String(value)));
}

/** Null is the same as nothing. */
function isGiven(raw: Raw | undefined): boolean {
  return raw !== undefined && !(raw.kind === "scalar" && raw.value === null);
}

/** YAML in one line. */
export function flow(value: unknown, flowCollectionPadding = false): string {
  return stringify(value, { collectionStyle: "flow", flowCollectionPadding, lineWidth: 0 }).trim();
}

/**
 * The keys below `key` whose values differ, with both values as they would be written. Items that have names are compared by
 * name. `tokenNames`: names in `auth.tokensFile` of either configuration, which are shown.
 */
export function differences(
  node: Node,
  from: Raw | undefined,
  to: Raw | undefined,
  tokenNames = noNames,
  key = "",
): SettingChange[] {
  if (node.kind === "section") {
    return Object.entries(node.keys).flatMap(([name, child]) =>
      differences(child, rawAt(from, [name]), rawAt(to, [name]), tokenNames, key === "" ? name : `${key}.${name}`),
    );
  }
  if (node.kind === "list" && node.item.kind === "section" && "name" in node.item.keys) {
    return differencesByName(node, from, to, tokenNames, key);
  }
  if (meaning(node, from) === meaning(node, to)) return [];
  return [{ key, from: shown(node, from, tokenNames), to: shown(node, to, tokenNames) }];
}

function differencesByName(
  list: List<ListItem>,
  from: Raw | undefined,
  to: Raw | undefined,
  tokenNames: TokenNames,
  key: string,
): SettingChange[] {
  const [before, after] = [itemsByName(list, from), itemsByName(list, to)];
  const found = [...new Set([...before.keys(), ...after.keys()])].flatMap((name): SettingChange[] => {
    const [old, now] = [before.get(name), after.get(name)];
    const at = `${key}.${name}`;
    if (old !== undefined && now !== undefined) return differences(list.item, old, now, tokenNames, at);
    const shownOrNull = (raw: Raw | undefined) => (raw === undefined ? null : shown(list.item, raw, tokenNames));
    return [{ key: at, from: shownOrNull(old), to: shownOrNull(now) }];
  });
  const [oldOrder, newOrder] = [[...before.keys()].join(", "), [...after.keys()].join(", ")];
  return found.length > 0 || oldOrder === newOrder ? found : [{ key, from: oldOrder, to: newOrder }];
}

function shown(node: Node, raw: Raw | undefined, tokenNames: TokenNames): string {
  const value = effective(node, raw, tokenNames);
  return flow(node.kind === "list" && isListOfLeaves(node) ? value : withoutNull(value));
}

function itemsByName(list: List<ListItem>, raw: Raw | undefined): Map<string, Raw> {
  const item = list.item as Section<{ readonly name: Leaf<unknown> }>;
  return new Map(itemsOf(list, raw).map((each) => [`${scalarOf(item.keys.name, rawAt(each, ["name"]))}`, each]));
}

/** A text that is the same for values that mean the same. */
function meaning(node: Node, raw: Raw | undefined): string {
  switch (node.kind) {
    case "leaf":
      return JSON.stringify(node.parse(scalarOf(node, raw)) ?? null);
    case "list":
      return itemsOf(node, raw)
        .map((item) => meaning(node.item, item))
        .join();
    case "section":
      return Object.entries(node.keys)
        .map(([key, child]) => meaning(child, rawAt(raw, [key])))
        .join();
  }
}

function scalarOf(leaf: Leaf<unknown>, raw: Raw | undefined): Scalar {
  return raw?.kind === "scalar" ? raw.value : leaf.default;
}

function itemsOf(list: List<ListItem>, raw: Raw | undefined): readonly Raw[] {
  return (raw?.kind === "list" ? raw : defaultOf(list)).items;
}

/** Keys that are null say nothing. */
function withoutNull(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNull);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null));
}
