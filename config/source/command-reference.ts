// Generates the list of all commands in docs/commands.md from the table of commands: its help, and what `--json` prints.
import { helpText } from "../../src/commands/help.ts";
import { commandNames, commands } from "../../src/commands/options.ts";

export function commandReference(): string {
  const sections = commandNames.flatMap((name) => {
    const { answer } = commands[name];
    return [
      `### headgate ${name}`,
      "",
      "```",
      helpText(name).trimEnd(),
      "```",
      "",
      ...(answer === undefined ? [] : [`\`--json\` prints the answer of \`${answer}\`.`, ""]),
    ];
  });
  return sections.join("\n");
}
