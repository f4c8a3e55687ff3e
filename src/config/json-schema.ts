// The definition as a JSON Schema (draft 2020-12), from which an editor completes keys and marks mistakes. It never
// refuses what the gateway accepts; what it cannot say (overlapping routes, impossible pairs) `headgate check` says.
import type { Item, JsonSchema, Keys, Node, Section } from "./definition.ts";
import { schema } from "./schema.ts";
import { effective } from "./written.ts";

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
      return { ...describeItem(node), default: node.default };
    case "list": {
      const { description, minItems, maxItems, item } = node;
      const items = describeItem(item);
      return { description, type: "array", minItems, maxItems, items, default: effective(node) };
    }
    case "section":
      return describeSection(node);
  }
}

/** An item's own default is that of an absent key, and an item of a list is never absent. */
function describeItem(item: Item): JsonSchema {
  return item.kind === "leaf" ? { description: item.description, ...item.json } : describeSection(item);
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
