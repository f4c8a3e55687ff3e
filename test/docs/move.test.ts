// What `headgate check` says of a word of another product leads to a page that has the word.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { fold, movePageOf, wordsByPage } from "../../src/config/move-pages.ts";
import { read, root } from "./markdown.ts";

const words = Object.values(wordsByPage).flatMap((text) => text.split(" "));

/** The errors of a configuration that has the word as a key of a policy, or at the top. */
function errorsOf(word: string, where: "policies.0." | ""): string[] {
  const overrides = [{ path: [...where.split(".").slice(0, -1), word], text: "1", at: { kind: "options" } as const }];
  const loaded = loadSettings({ file: undefined, env: {}, cwd: root, overrides });
  return loaded.ok ? [] : loaded.errors.map(({ message }) => message);
}

test.each(words)("%s stands in the page that is named, in some spelling", (word) => {
  const page = movePageOf(word) ?? "";
  expect(existsSync(join(root, page))).toBe(true);
  expect(fold(read(page))).toContain(fold(word));
});

test.each(words)("check names the page of %s", (word) => {
  const errors = [...errorsOf(word, "policies.0."), ...errorsOf(word, "")];
  expect(errors.filter((message) => message.endsWith(`ee ${movePageOf(word)}`))).not.toEqual([]);
});

test("a word of no other product has no page", () => {
  expect(movePageOf("polices")).toBeUndefined();
});
