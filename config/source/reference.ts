// Generates the reference of all keys in docs/configuration.md: a table for each section with the environment variable,
// the default, the accepted values and the meaning of each key.
import { isListOfLeaves, type Leaf, type List, type ListItem, type Node } from "../../src/config/definition.ts";
import { effective, flow } from "../../src/config/effective.ts";
import { variableName } from "../../src/config/overrides.ts";
import { schema } from "../../src/config/schema.ts";

export function configReference(): string {
  const nodes = Object.entries(schema.keys);
  const sections = nodes.filter(([, node]) => keysOf(node) !== undefined);
  const others = nodes.filter(([, node]) => keysOf(node) === undefined);
  return [
    ...sections.map(([key, node]) => table(`\`${key}\``, node.description, rows(node, [key]))),
    table(
      "Keys outside of a section",
      "",
      others.flatMap(([key, node]) => rows(node, [key])),
    ),
  ].join("\n");
}

function table(title: string, description: string, rows: readonly string[]): string {
  const intro = description === "" ? [] : [description, ""];
  return [
    `### ${title}`,
    "",
    ...intro,
    "| key | default | accepted | meaning |",
    "|---|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}

function rows(node: Node, path: readonly string[]): string[] {
  if (node.kind === "leaf" || (node.kind === "list" && isListOfLeaves(node))) return [row(node, path)];
  const below = node.kind === "list" ? [...path, "0"] : path;
  return Object.entries(keysOf(node) ?? {}).flatMap(([key, child]) => {
    const at = [...below, key];
    if (child.kind === "section") {
      return [cells([`\`${keyName(at)}\``, "", "a mapping", child.description]), ...rows(child, at)];
    }
    const isListOfSections = child.kind === "list" && !isListOfLeaves(child);
    return isListOfSections ? [row(child, at), ...rows(child, at)] : rows(child, at);
  });
}

/** What is in effect without any configuration, the policy in the default list included. */
const withoutConfiguration = effective(schema);

function valueIn(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}

function row(node: Leaf<unknown> | List<ListItem>, path: readonly string[]): string {
  const shown = path.reduce(valueIn, withoutConfiguration);
  const accepted = node.kind === "list" && node.item.kind === "leaf" ? `; each ${node.item.expected}` : "";
  return cells([
    `\`${keyName(path)}\`<br>\`${variableName(path)}\``,
    `\`${"isRequired" in node && shown === undefined ? "required" : flow(shown ?? node.default)}\``,
    node.expected + accepted,
    node.description,
  ]);
}

const keyName = (path: readonly string[]): string => path.join(".").replaceAll(/\.(\d+)/g, "[$1]");

const cells = (texts: readonly string[]): string =>
  `| ${texts.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;

/** The keys of a section, or of the sections in a list. */
function keysOf(node: Node) {
  if (node.kind === "list") return node.item.kind === "section" ? node.item.keys : undefined;
  return node.kind === "section" ? node.keys : undefined;
}
