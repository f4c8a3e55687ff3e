// The man page headgate(1), made of the table of commands. `node config/source/man-page.ts` prints it: packages for Linux have it,
// the repository does not.
import { readFileSync } from "node:fs";
import { optionText, usageOf } from "../../src/commands/help.ts";
import { type CommandName, commandNames, commands } from "../../src/commands/options.ts";

/** `version`: of headgate. `date`: of the commit, such as 2026-11-30. Returns the source for man. */
export function manPage(version: string, date: string): string {
  const lines = [
    `.TH HEADGATE 1 "${date}" "headgate ${version}" "Headgate"`,
    ".SH NAME",
    "headgate \\- a rate-limiting reverse-proxy gateway",
    ".SH SYNOPSIS",
    `.B headgate\n${text("<command> [options]")}`,
    ".SH COMMANDS",
    ...commandNames.flatMap(commandLines),
    ".SH OTHER OPTIONS",
    entry("<command> --help", "Print the options of a command, with examples."),
    entry("--version", "Print the version, and the commit of a build."),
    ".SH ENVIRONMENT",
    entry("HEADGATE_CONFIG", "The configuration, if --config does not name one."),
    entry("HEADGATE_...", "Each key of the configuration, such as HEADGATE_UPSTREAM_URL for upstream.url."),
    ".SH SIGNALS",
    entry("SIGTERM, SIGINT", "Drain and end; a second one ends at once."),
    entry("SIGHUP", "Reload the configuration."),
    ".SH EXIT STATUS",
    ...exitStatus(),
  ];
  return `${lines.join("\n")}\n`;
}

function commandLines(name: CommandName): string[] {
  const command = commands[name];
  const { means, positionals = [], options, examples } = command;
  return [
    `.SS ${quoted(`headgate ${usageOf(name, command)}`)}`,
    text(means),
    ...positionals.map(({ name: word, means: what }) => entry(`<${word}>`, `${what}.`)),
    ...Object.entries(options).map(([option, of]) => entry(optionText(option, of), of.means)),
    ".PP\nExamples:\n.PP\n.nf",
    ...examples.map((example) => text(`headgate ${name} ${example}`.trimEnd())),
    ".fi",
  ];
}

/** From the table of the page about the commands. */
function exitStatus(): string[] {
  const page = readFileSync(new URL("../../docs/commands.md", import.meta.url), "utf8");
  return [...page.matchAll(/^\| (\d[\d, ]*) \| (.*) \|$/gm)].map(([, codes = "", means = ""]) => {
    return entry(codes, `${means.replaceAll("`", "")}.`);
  });
}

function entry(name: string, means: string): string {
  return `.TP\n.B ${quoted(name)}\n${text(means)}`;
}

/** A line of text: hyphens as they are typed, and nothing at its begin that would be a request. */
function text(line: string): string {
  return escaped(line).replace(/^[.']/, "\\&$&");
}

/** One argument of a request. */
function quoted(words: string): string {
  return `"${escaped(words).replaceAll('"', '""')}"`;
}

function escaped(words: string): string {
  return words.replaceAll("\\", "\\e").replaceAll("-", "\\-");
}

if (import.meta.main) {
  const [version = "", date = ""] = process.argv.slice(2);
  process.stdout.write(manPage(version, date));
}
