// The definition as a JSON Schema (draft 2020-12), from which an editor completes keys and marks mistakes. It never
// refuses what the gateway accepts; what it cannot say (overlapping routes, impossible pairs) `headgate check` says.
import type { JsonSchema, Keys, Leaf, List, Node, Section } from "./definition.ts";
import { schema } from "./schema.ts";

export function jsonSchema(): JsonSchema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "headgate.yaml",
    ...describeSection(schema),
  };
}

/** As config/headgate.schema.json holds it. */
export function jsonSchemaText(): string {
  return `${JSON.stringify(jsonSchema(), null, 2)}\n`;
}

function describe(node: Node): JsonSchema {
  switch (node.kind) {
    case "leaf":
      return { description: node.description, ...node.json, default: node.default };
    case "list":
      return describeList(node);
    case "section":
      return describeSection(node);
  }
}

function describeList(list: List<Leaf<unknown> | Section<Keys>>): JsonSchema {
  const { item } = list;
  return {
    description: list.description,
    type: "array",
    minItems: list.minItems,
    maxItems: list.maxItems,
    // An item's own default is that of an absent key, and an item of a list is never absent.
    items: item.kind === "leaf" ? { description: item.description, ...item.json } : describeSection(item),
    default:
      typeof list.default === "number" ? Array.from({ length: list.default }, () => defaults(item)) : list.default,
  };
}

function describeSection(section: Section<Keys>): JsonSchema {
  return {
    description: section.description,
    // A section whose keys are all commented out is null to YAML.
    type: ["object", "null"],
    additionalProperties: false,
    properties: Object.fromEntries(Object.entries(section.keys).map(([key, node]) => [key, describe(node)])),
  };
}

function defaults(node: Leaf<unknown> | Section<Keys>): unknown {
  if (node.kind === "leaf") return node.default;
  const leaves = Object.entries(node.keys).flatMap(([key, child]) =>
    child.kind === "leaf" ? [[key, child.default] as const] : [],
  );
  return Object.fromEntries(leaves);
}
