// What commands print for people has no character that a terminal obeys or a reader does not see, wherever it comes from.
import { expect, test } from "vitest";
import { instant } from "../../../src/admin/console/format.js";
import { problemsOf } from "../../../src/admin/console/problems.js";
import { instantText, jsonText, linesText, tableLines, untilText } from "../../../src/commands/admin/printed.ts";
import { statusLines } from "../../../src/commands/admin/status-report.ts";
import { onFailureModes } from "../../../src/core/store-link.ts";
import { status } from "../../admin/fake-plane.ts";
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

test("an instant has the same second on the command line and in the console: it is cut, while what is left is rounded up", () => {
  const nowMs = Date.parse("2026-03-01T12:00:00Z");
  for (const ms of ["000", "001", "499", "500", "999"]) {
    const at = `2026-03-01T12:00:56.${ms}Z`;
    expect(instantText(at, nowMs)).toBe("12:00:56 UTC");
    expect(instant(at)).toMatch(/:56$/);
  }
  expect(untilText("2026-03-01T12:00:56.100Z", nowMs)).toBe("in 57 s, at 12:00:56 UTC");
});

test.each(onFailureModes)(
  "while the store is away, status and the console say the same of clients: %s",
  (onFailure) => {
    const store = { ...status.store, state: "away", onFailure } as NonNullable<typeof status.store>;
    const lines = statusLines({ ...status, store }, 0).map((line) => line.trim());
    const meaning = lines[lines.findIndex((line) => line.startsWith("store ")) + 1];
    const texts = problemsOf({ ...status, store }, null, null).map((one) => (one ? one.text : ""));
    expect(texts).toContainEqual(expect.stringMatching(/^The store has been away since .*: /));
    expect(texts.find((text) => text.startsWith("The store"))?.endsWith(`: ${meaning}.`)).toBe(true);
  },
);
