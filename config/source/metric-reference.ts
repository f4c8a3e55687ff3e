// Generates the tables of all metrics in docs/metrics.md: name, type, labels and their values from a scrape, and the meaning
// from metric-notes.yaml, or the metric's HELP where that says enough.
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { metricsOf, storeOf, twoAddresses } from "../../test/telemetry/scrape.ts";

/**
 * By section: the note of each metric, or null where its HELP is enough. `about` is the text above the table. A section with
 * `valuesOf` explains the values of that metric's label instead.
 */
type Notes = Readonly<Record<string, Readonly<Record<string, string | null>>>>;

interface Family {
  readonly type: string;
  readonly help: string;
  /** The values of each label, in the order in which the scrape has them. */
  readonly labels: ReadonlyMap<string, Set<string>>;
}

/** Longer lists are in the page that the note links to. */
const mostValues = 12;
/** Labels whose values the configuration or the release decides. */
const open = new Set(["route", "policy", "worker", "version", "node_version", "le"]);

export async function metricReference(): Promise<string> {
  const notes: Notes = parse(readFileSync(new URL("metric-notes.yaml", import.meta.url), "utf8"));
  const families = await ownFamilies();
  const known = Object.values(notes);
  const missing = [...families.keys()].filter((name) => !known.some((section) => name in section));
  if (missing.length > 0) throw new Error(`metric-notes.yaml lacks ${missing.join(", ")}`);
  const sections = Object.entries(notes).flatMap(([section, { about, valuesOf, ...entries }]) => [
    `### ${section}`,
    "",
    ...(typeof about === "string" ? [about, ""] : []),
    ...(typeof valuesOf === "string"
      ? valueRows(entries, families.get(valuesOf))
      : [
          "| metric | type | labels | meaning |",
          "|---|---|---|---|",
          ...Object.entries(entries).map(([name, note]) => row(name, note, families.get(name))),
        ]),
    "",
  ]);
  return sections.join("\n");
}

function row(name: string, note: string | null, family: Family | undefined): string {
  if (family === undefined) throw new Error(`metric-notes.yaml has ${name}, which is no metric`);
  const labels = [...family.labels].map(([label, values]) => {
    if (open.has(label) || values.size > mostValues) return `\`${label}\``;
    return `\`${label}\`: ${[...values].map((value) => `\`${value}\``).join(", ")}`;
  });
  return `| \`${name}\` | ${family.type} | ${labels.join("; ")} | ${note ?? family.help} |`;
}

function valueRows(notes: Readonly<Record<string, string | null>>, family: Family | undefined): string[] {
  const [[label, values] = ["", new Set<string>()]] = family?.labels ?? [];
  const different = [
    ...[...values].filter((value) => !(value in notes)),
    ...Object.keys(notes).filter((name) => !values.has(name)),
  ];
  if (different.length > 0) throw new Error(`metric-notes.yaml and the label ${label} differ: ${different.join(", ")}`);
  return [`| ${label} | when |`, "|---|---|", ...[...values].map((value) => `| \`${value}\` | ${notes[value]} |`)];
}

async function ownFamilies(): Promise<Map<string, Family>> {
  const { body } = await metricsOf({ store: storeOf(), upstreamAddresses: twoAddresses }).text(false);
  const families = new Map<string, Family>();
  for (const line of body.split("\n")) {
    const [, name = "", help = ""] = /^# HELP (headgate_\S+) (.*)$/.exec(line) ?? [];
    if (name !== "") families.set(name, { type: "", help, labels: new Map() });
    const [, typed = "", type = ""] = /^# TYPE (headgate_\S+) (\S+)$/.exec(line) ?? [];
    const family = families.get(typed);
    if (family !== undefined) families.set(typed, { ...family, type });
    const [, series = "", labels = ""] = /^(headgate_\w+)\{(.*)\} /.exec(line) ?? [];
    const owner = families.get(series) ?? families.get(series.replace(/_(?:bucket|sum|count)$/, ""));
    for (const [, label = "", value = ""] of labels.matchAll(/(\w+)="([^"]*)"/g)) {
      if (owner === undefined || label === "le") continue;
      const values = owner.labels as Map<string, Set<string>>;
      values.set(label, (values.get(label) ?? new Set()).add(value));
    }
  }
  return families;
}
