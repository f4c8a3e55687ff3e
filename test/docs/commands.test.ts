import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { commandReference } from "../../config/source/command-reference.ts";
import { exitCodes, signalExitCodes } from "../../src/commands/io.ts";

const page = readFileSync(new URL("../../docs/commands.md", import.meta.url), "utf8");

test("the commands in docs/commands.md are those of the table: run `npm run api` after a change", () => {
  const reference = /<!-- all commands: npm run api -->\n(.*)<!-- end of all commands -->/s.exec(page)?.[1];
  expect(reference).toBe(commandReference());
});

test("each exit code is in the table, and no other", () => {
  const rows = [...page.matchAll(/^\| ([\d, ]+) \| /gm)].flatMap(([, codes = ""]) => codes.split(", ").map(Number));
  expect(rows.sort()).toEqual([...Object.values(exitCodes), ...Object.values(signalExitCodes)].sort());
});
