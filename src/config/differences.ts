// The keys whose values two configurations have differently, with both values as they would be written. Values that mean
// the same, such as 60s and 1m, are no difference. Policies are compared by name.
import type { SettingChange } from "../core/reload.ts";
import { defaultOf, type Item, type Keys, type Leaf, type List, type Node, type Section } from "./definition.ts";
import { isListOfLeaves } from "./paths.ts";
import { type Raw, rawAt, type Scalar } from "./raw.ts";
import { schema } from "./schema.ts";
import { effective, flow, type TokenNames } from "./written.ts";

/** Secrets are masked. `tokenNames`: names in `auth.tokensFile` of either configuration, which are shown. */
export function differences(from: Raw | undefined, to: Raw | undefined, tokenNames?: TokenNames): SettingChange[] {
  return new Comparison(tokenNames).of(schema, "", from, to);
}

type Written = Raw | undefined;

class Comparison {
  readonly #tokenNames: TokenNames | undefined;

  constructor(tokenNames?: TokenNames) {
    this.#tokenNames = tokenNames;
  }

  of(node: Node, key: string, from: Written, to: Written): SettingChange[] {
    if (node.kind === "section") return this.#ofSections(node, key, from, to);
    const isNamed = node.kind === "list" && node.item.kind === "section" && "name" in node.item.keys;
    if (isNamed) return this.#ofNamed(node, key, from, to);
    if (meaning(node, from) === meaning(node, to)) return [];
    return [{ key, from: this.#shown(node, from), to: this.#shown(node, to) }];
  }

  #ofSections({ keys }: Section<Keys>, key: string, from: Written, to: Written): SettingChange[] {
    return Object.entries(keys).flatMap(([name, child]) =>
      this.of(child, key === "" ? name : `${key}.${name}`, rawAt(from, [name]), rawAt(to, [name])),
    );
  }

  #ofNamed(list: List<Item>, key: string, from: Written, to: Written): SettingChange[] {
    const [before, after] = [itemsByName(list, from), itemsByName(list, to)];
    const names = [...new Set([...before.keys(), ...after.keys()])];
    const found = names.flatMap((name): SettingChange[] => {
      const [old, now] = [before.get(name), after.get(name)];
      const at = `${key}.${name}`;
      if (old === undefined) return [{ key: at, from: null, to: this.#shown(list.item, now) }];
      if (now === undefined) return [{ key: at, from: this.#shown(list.item, old), to: null }];
      return this.of(list.item, at, old, now);
    });
    const [oldOrder, newOrder] = [before, after].map((items) => [...items.keys()].join(", "));
    if (found.length > 0 || oldOrder === newOrder) return found;
    return [{ key, from: oldOrder ?? "", to: newOrder ?? "" }];
  }

  #shown(node: Node, raw: Written): string {
    const value = effective(node, raw, this.#tokenNames);
    return flow(node.kind === "list" && isListOfLeaves(node) ? value : withoutNull(value));
  }
}

function itemsByName(list: List<Item>, raw: Written): Map<string, Raw> {
  const item = list.item as Section<{ readonly name: Leaf<unknown> }>;
  return new Map(itemsOf(list, raw).map((each) => [`${scalarOf(item.keys.name, rawAt(each, ["name"]))}`, each]));
}

/** A text that is the same for values that mean the same. */
function meaning(node: Node, raw: Written): string {
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

function scalarOf(leaf: Leaf<unknown>, raw: Written): Scalar {
  return raw?.kind === "scalar" ? raw.value : leaf.default;
}

function itemsOf(list: List<Item>, raw: Written): readonly Raw[] {
  return (raw?.kind === "list" ? raw : defaultOf(list)).items;
}

/** Keys that are null say nothing. */
function withoutNull(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNull);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null));
}
