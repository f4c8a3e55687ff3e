// Makes a JSON Schema (draft 2020-12) from the definition, with which an editor completes keys and marks errors. It never
// refuses what the gateway accepts. Some errors, such as overlapping routes, only `headgate check` finds.
import type { JsonSchema, Keys, ListItem, Node, Section } from "../../src/config/definition.ts";
import { effective } from "../../src/config/effective.ts";
import { schema } from "../../src/config/schema.ts";

export function jsonSchema(): JsonSchema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "headgate.yaml",
    ...describeSection(schema),
  };
}

/** The content of config/headgate.schema.json. */
export function jsonSchemaText(): string {
  return `${JSON.stringify(jsonSchema(), null, 2)}\n`;
}

function describe(node: Node): JsonSchema {
  switch (node.kind) {
    case "leaf":
      return { ...describeItem(node), ...(node.isRequired ? {} : { default: node.default }) };
    case "list": {
      const { description, minItems, maxItems, item } = node;
      const items = describeItem(item);
      return { description, type: "array", minItems, maxItems, items, default: effective(node) };
    }
    case "section":
      return describeSection(node);
  }
}

/** Without the item's own default, because an item of a list is never absent. */
function describeItem(item: ListItem): JsonSchema {
  return item.kind === "leaf" ? { description: item.description, ...item.json } : describeSection(item);
}

export function describeSection(section: Section<Keys>): JsonSchema {
  const nodes = Object.entries(section.keys);
  const required = nodes.flatMap(([key, node]) => ("isRequired" in node ? [key] : []));
  return {
    description: section.description,
    // YAML reads a section whose keys are all commented out as null.
    type: ["object", "null"],
    additionalProperties: false,
    properties: Object.fromEntries(nodes.map(([key, node]) => [key, describe(node)])),
    ...(required.length === 0 ? {} : { required }),
  };
}
