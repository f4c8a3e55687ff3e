// Help that needs no page: what is shown of each command is true.
import { expect, test } from "vitest";
import { parseArguments } from "../../src/commands/arguments.ts";
import { helpText } from "../../src/commands/help.ts";
import { commandNames, commands } from "../../src/commands/options.ts";

const lines = (text: string): string[] => text.trimEnd().split("\n");

test.each([null, ...commandNames])("the help of %s fits 80 columns", (name) => {
  expect(lines(helpText(name)).filter((line) => line.length > 80)).toEqual([]);
});

test.each(commandNames)("both examples of %s are understood", (name) => {
  const { examples } = commands[name];
  expect(new Set(examples).size).toBe(2);
  for (const example of examples) {
    const [line = ""] = example.split(" > ");
    expect(helpText(name)).toContain(`  headgate ${name}${example === "" ? "" : ` ${example}`}\n`);
    const argv = [name, ...line.split(" ").filter((word) => word !== "")];
    expect(parseArguments(argv)).toMatchObject({ ok: true });
  }
});

test("the usage has the arguments and the options that are needed", () => {
  expect(lines(helpText("block"))[0]).toBe("usage: headgate block <whom> --for <duration> [options]");
  expect(lines(helpText("limit"))[0]).toBe("usage: headgate limit <whom> --limit <number> --for <duration> [options]");
  expect(lines(helpText("rules"))[0]).toBe("usage: headgate rules [remove <id>] [options]");
  expect(lines(helpText("completions"))[0]).toBe("usage: headgate completions <shell> [options]");
  expect(lines(helpText("status"))[0]).toBe("usage: headgate status [options]");
});

test("each argument is explained", () => {
  for (const name of commandNames) {
    for (const { means } of commands[name].positionals ?? []) {
      const text = helpText(name).replaceAll(/\s+/g, " ").toLowerCase();
      expect(text).toContain(means.toLowerCase());
    }
  }
});
