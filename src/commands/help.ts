// The text of `--help`, made of the table of commands. No line is longer than 80 characters, so that it fits a terminal.
import { adminCommands, type Command, type CommandName, commandNames, commands, type Option } from "./options.ts";

const width = 80;

/** `topic`: null for the list of all commands. */
export function helpText(topic: CommandName | null): string {
  return `${(topic === null ? listOfCommands() : helpOf(topic)).join("\n")}\n`;
}

function listOfCommands(): string[] {
  const isAdmin = (name: CommandName): boolean => adminCommands.some((each) => each === name);
  const rows = (names: readonly CommandName[]) => names.map((name) => [name, commands[name].means] as const);
  const own = rows(commandNames.filter((name) => !isAdmin(name)));
  const others = [
    ["<command> --help", "Print the options of a command, with examples."],
    ["--version", "Print the version, and the commit of a build."],
  ] as const;
  const asking = rows(adminCommands);
  const left = Math.max(...[...own, ...asking, ...others].map(([name]) => name.length));
  return [
    "headgate: a rate-limiting reverse-proxy gateway",
    "",
    "usage: headgate <command> [options]",
    "",
    ...columns(own, left),
    "",
    "Of a running gateway, by its admin API:",
    "",
    ...columns(asking, left),
    "",
    ...columns(others, left),
  ];
}

function helpOf(topic: CommandName): string[] {
  const command = commands[topic];
  const { means, positionals = [], options, examples } = command;
  const words = positionals.map(({ name, means: what, words: these }) => {
    return [
      these === undefined ? `<${name}>` : name,
      `${capitalized(what)}${these === undefined ? "" : choice(these)}.`,
    ];
  }) as [string, string][];
  const rows = Object.entries(options).map(([name, option]): [string, string] => [
    optionText(name, option),
    option.means,
  ]);
  const left = Math.max(...[...words, ...rows].map(([text]) => text.length));
  return [
    `usage: headgate ${usageOf(topic, command)}`,
    "",
    means,
    "",
    ...columns(words, left),
    ...columns(rows, left),
    "",
    "examples:",
    ...examples.map((example) => `  headgate ${topic} ${example}`.trimEnd()),
  ];
}

function choice(words: readonly string[]): string {
  return words.length < 2 ? "" : `: ${words.join(", ")}`;
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What is written after `headgate`, such as `block <whom> --for <duration> [options]`. */
export function usageOf(name: CommandName, { positionals = [], options }: Command): string {
  const words = positionals.map(({ name: word, words: these }) => (these?.length === 1 ? word : `<${word}>`));
  const optionalFrom = positionals.findIndex(({ isOptional }) => isOptional === true);
  const shown =
    optionalFrom === -1 ? words : [...words.slice(0, optionalFrom), `[${words.slice(optionalFrom).join(" ")}]`];
  const required = Object.entries(options).filter(([, { isRequired }]) => isRequired === true);
  return [name, ...shown, ...required.map(([option, of]) => optionText(option, of)), "[options]"].join(" ");
}

/** Such as `--diff <file> <file>`. */
export function optionText(name: string, { value, second, short }: Option): string {
  const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
  const values = [value, second].filter((each) => typeof each === "string");
  return [names, ...values.map((each) => `<${each.replace(/^an? /, "")}>`)].join(" ");
}

function columns(rows: readonly (readonly [string, string])[], left: number): string[] {
  return rows.flatMap(([name, means]) => {
    const lines = wrapped(means, width - left - 4);
    return lines.map((line, i) => `  ${(i === 0 ? name : "").padEnd(left)}  ${line}`);
  });
}

/** Breaks a text between its words. A word that is too long has a line of its own. */
function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= most) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}
