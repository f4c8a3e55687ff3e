// The configuration in the words it is written in: the effective values for `headgate check`, the defaults for the
// documentation.
import { stringify } from "yaml";
import type { Node } from "./definition.ts";
import { allEntries, type Entry, isListOfLeaves } from "./paths.ts";
import { type Raw, rawAt } from "./raw.ts";
import { schema } from "./schema.ts";

/** One line for each key at the top, complete with defaults, as one could put it into a file. */
export function effectiveLines(raw: Raw | undefined): string[] {
  return Object.entries(schema.keys).map(([key, node]) =>
    stringify(
      { [key]: write(node, rawAt(raw, [key])) },
      { collectionStyle: "flow", flowCollectionPadding: true, lineWidth: 0 },
    )
      .trim()
      .replace(/^\{ (.*) \}$/s, "$1"),
  );
}

/** The table in docs/configuration.md: `| key | default | allowed | meaning |`, with its head. */
export function configTable(): string {
  const rows = allEntries().map(({ path, node }) => {
    const key = path.join(".").replaceAll(/\.(\d+)/g, "[$1]");
    const byDefault = stringify(node.default, { collectionStyle: "flow", flowCollectionPadding: false, lineWidth: 0 });
    return `| \`${key}\` | \`${byDefault.trim()}\` | ${allowed(node)} | ${node.description.replaceAll("|", "\\|")} |`;
  });
  return ["| key | default | allowed | meaning |", "|---|---|---|---|", ...rows, ""].join("\n");
}

/** Bounds or words; of a list how many items. */
function allowed(node: Entry["node"]): string {
  if (node.kind === "leaf") return node.allowed;
  return `${node.item.allowed === "" ? "" : `${node.item.allowed}: `}${node.minItems} to ${node.maxItems} of them`;
}

function write(node: Node, raw: Raw | undefined): unknown {
  switch (node.kind) {
    case "leaf":
      return raw?.kind === "scalar" ? raw.value : node.default;
    case "list":
      if (raw?.kind === "list") return raw.items.map((item) => write(node.item, item));
      if (isListOfLeaves(node)) return node.default;
      return Array.from({ length: Number(node.default) }, () => write(node.item, undefined));
    case "section":
      return Object.fromEntries(
        Object.entries(node.keys).map(([key, child]) => [key, write(child, rawAt(raw, [key]))]),
      );
  }
}
