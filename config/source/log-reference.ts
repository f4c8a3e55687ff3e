// Generates the tables of docs/log-lines.md: each message that src/ logs, with its levels, and the meaning from log-notes.yaml.
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";

/** By section. Lines of one meaning share a row. */
type LogNotes = Readonly<Record<string, readonly { readonly lines: readonly string[]; readonly meaning: string }[]>>;

export function logReference(): string {
  const notes: LogNotes = parse(readFileSync(new URL("log-notes.yaml", import.meta.url), "utf8"));
  const levels = levelsOfMessages();
  const explained = Object.values(notes).flatMap((rows) => rows.flatMap(({ lines }) => lines));
  const missing = [...levels.keys()].filter((message) => !explained.includes(message));
  const unknown = explained.filter((message) => !levels.has(message));
  if (missing.length > 0) throw new Error(`log-notes.yaml lacks ${missing.join("; ")}`);
  if (unknown.length > 0) throw new Error(`log-notes.yaml has lines that nothing logs: ${unknown.join("; ")}`);
  const sections = Object.entries(notes).flatMap(([section, rows]) => [
    `## ${section}`,
    "",
    "| message | level | meaning |",
    "|---|---|---|",
    ...rows.map(({ lines, meaning }) => {
      const ofRow = new Set(lines.flatMap((message) => [...(levels.get(message) ?? [])]));
      return `| ${quoted(lines)} | ${quoted([...ofRow])} | ${meaning} |`;
    }),
    "",
  ]);
  return sections.join("\n");
}

function quoted(words: readonly string[]): string {
  return words.map((word) => `\`${word}\``).join(", ");
}

/** Of each message that a call of a logger has as its last argument. What a program puts into it is `…`. */
function levelsOfMessages(): Map<string, Set<string>> {
  const src = new URL("../../src/", import.meta.url);
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
  const levels = new Map<string, Set<string>>();
  for (const file of files.sort()) {
    const calls = readFileSync(new URL(file, src), "utf8").matchAll(
      /\b(?:log\??\.(debug|info|warn|error)|sampled)\([^;]*?(["`])([^"`]+)\2,?\s*\)/g,
    );
    // `sampled` takes the message of a report, which is a warning.
    for (const [, level = "warn", , text = ""] of calls) {
      const message = text.replace(/\$\{\w+\}/g, "…");
      levels.set(message, (levels.get(message) ?? new Set()).add(level));
    }
  }
  return levels;
}
