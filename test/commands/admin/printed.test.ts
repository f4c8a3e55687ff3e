// What commands print for people has no character that a terminal obeys or a reader does not see, wherever it comes from.
import { expect, test } from "vitest";
import { jsonText, linesText, tableLines } from "../../../src/commands/admin/printed.ts";
import { hiddenTexts, visibleText } from "../../support/hidden-characters.ts";

test.each(hiddenTexts)("%s is printed as its number", (_, text) => {
  const [, hidden = ""] = /^a(.)/su.exec(text) ?? [];
  const shown = text.replace(hidden, `\\u{${(hidden.codePointAt(0) ?? 0).toString(16)}}`);
  expect(linesText([text])).toBe(`${shown}\n`);
  expect(tableLines([["NOTE"], [text]])).toEqual(["NOTE", shown]);
  const json = jsonText({ note: text });
  expect(json).not.toContain(hidden === "\n" ? "a\n" : hidden);
  expect(JSON.parse(json)).toEqual({ note: text });
});

test("what a reader sees is printed as it is", () => {
  expect(linesText([visibleText])).toBe(`${visibleText}\n`);
  expect(jsonText(visibleText)).toBe(`"${visibleText}"\n`);
});
