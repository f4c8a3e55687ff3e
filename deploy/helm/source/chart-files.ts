// The files of the chart that are made from others: its README from values.yaml and values.schema.json, and copies of the rules
// and the dashboard, because a chart can read only files in its own folder.
import { readFileSync } from "node:fs";
import { parse } from "yaml";

type Tree = { readonly [key: string]: unknown };

interface Value {
  readonly path: string;
  readonly type: string;
  readonly unset: string;
  readonly meaning: string;
}

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

/** By their path in the chart's folder. */
export function chartFiles(): ReadonlyMap<string, string> {
  return new Map([
    ["README.md", readme()],
    ["files/alerts.rules.yaml", read("prometheus/alerts.rules.yaml")],
    ["files/recording.rules.yaml", read("prometheus/recording.rules.yaml")],
    ["files/dashboard.json", `${JSON.stringify(JSON.parse(read("grafana/headgate.json")))}\n`],
  ]);
}

function readme(): string {
  const tables = [...sections()].map(([title, values]) => {
    const rows = values.map(({ path, type, unset, meaning }) => `| \`${path}\` | ${type} | ${unset} | ${meaning} |`);
    return `### ${title}\n\n| value | type | default | meaning |\n|---|---|---|---|\n${rows.join("\n")}\n`;
  });
  return `${read("helm/source/introduction.md")}\n## Values\n\n${tables.join("\n")}`;
}

/** The values under each `# -- title`, with the comment over each. */
function sections(): Map<string, Value[]> {
  const text = read("helm/headgate/values.yaml");
  const values = parse(text) as Tree;
  const schema = JSON.parse(read("helm/headgate/values.schema.json")) as Tree;
  const found = new Map<string, Value[]>();
  let title = "";
  let comment: string[] = [];
  let above: string[] = [];
  /** The path whose lines below are its default, not values of their own. */
  let leaf: string | null = null;
  for (const line of text.split("\n")) {
    const [, indent = "", key] = /^( *)([\w-]+):/.exec(line) ?? [];
    if (/^# -- /.test(line)) title = line.slice(5);
    else if (/^ *# /.test(line)) comment.push(line.trim().slice(2));
    if (line === "" || line.startsWith("# -- ")) comment = [];
    if (key === undefined) continue;
    above = [...above.slice(0, indent.length / 2), key];
    const path = above.join(".");
    const meaning = comment.join(" ");
    comment = [];
    if (leaf !== null && path.startsWith(`${leaf}.`)) continue;
    const value = above.reduce((inner: unknown, one) => (inner as Tree)[one], values);
    const rule = ruleAt(schema, above);
    const hasValues = isTree(value) && (isTree(rule["properties"]) || path.startsWith("config"));
    leaf = hasValues ? null : path;
    if (hasValues && meaning === "") continue;
    const unset = hasValues ? "" : code(JSON.stringify(value));
    const row = { path, type: hasValues ? "" : typeOf(schema, rule, value), unset, meaning: cell(meaning) };
    found.set(title, [...(found.get(title) ?? []), row]);
  }
  return found;
}

const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);

/** What the schema says of the value at a path; empty where it says nothing. */
function ruleAt(schema: Tree, path: readonly string[]): Tree {
  return path.reduce((inner: Tree, key) => {
    const properties = inner["properties"];
    const next = isTree(properties) ? properties[key] : undefined;
    return isTree(next) ? resolve(schema, next) : {};
  }, schema);
}

function resolve(schema: Tree, rule: Tree): Tree {
  const name = String(rule["$ref"] ?? "").replace("#/definitions/", "");
  return name === "" ? rule : ((schema["definitions"] as Tree)[name] as Tree);
}

function typeOf(schema: Tree, rule: Tree, value: unknown): string {
  const words = rule["enum"];
  if (Array.isArray(words)) return words.filter((word) => word !== "").join(", ");
  const types = [rule["type"] ?? (value === null ? "any" : typeof value)].flat().map(String);
  const items = isTree(rule["items"]) ? resolve(schema, rule["items"]) : {};
  return types
    .map((type) => (type === "array" ? `list${items["type"] ? ` of ${items["type"]}s` : ""}` : type))
    .join(" or ");
}

const code = (text: string): string => `\`${cell(text)}\``;
const cell = (text: string): string => text.replaceAll("|", "\\|");
