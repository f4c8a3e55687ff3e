// Shows the effective configuration, including defaults, in the form in which it could be written into a file.
import { stringify } from "yaml";
import { defaultOf, type Node } from "./definition.ts";
import { type Raw, rawAt } from "./raw.ts";
import { schema } from "./schema.ts";

/** One line for each top-level key. */
export function effectiveLines(raw: Raw | undefined): string[] {
  return Object.entries(schema.keys).map(([key, node]) =>
    flow({ [key]: effective(node, rawAt(raw, [key])) }, true).replace(/^\{ (.*) \}$/s, "$1"),
  );
}

export function effective(node: Node, raw?: Raw): unknown {
  switch (node.kind) {
    case "leaf":
      if (node.isSecret && raw?.kind === "scalar" && raw.value !== null) return "***";
      return raw?.kind === "scalar" ? raw.value : node.default;
    case "list":
      return (raw?.kind === "list" ? raw : defaultOf(node)).items.map((item) => effective(node.item, item));
    case "section":
      return Object.fromEntries(
        Object.entries(node.keys)
          .map(([key, child]) => [key, child, rawAt(raw, [key])] as const)
          .filter(([, child, written]) => !child.isShownIfWritten || isGiven(written))
          .map(([key, child, written]) => [key, effective(child, written)]),
      );
  }
}

/** Null is the same as nothing. */
function isGiven(raw: Raw | undefined): boolean {
  return raw !== undefined && !(raw.kind === "scalar" && raw.value === null);
}

/** YAML in one line. */
export function flow(value: unknown, flowCollectionPadding = false): string {
  return stringify(value, { collectionStyle: "flow", flowCollectionPadding, lineWidth: 0 }).trim();
}
