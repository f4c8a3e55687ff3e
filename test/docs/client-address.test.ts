// docs/headers.md: its table of headers that only a trusted proxy may send is the one in force, and those that it
// says pass do so until they are listed.
import { expect, test } from "vitest";
import { clientAddress } from "../../src/config/requests.ts";
import { fixedFieldNames, ownNames, vouchingNames } from "../../src/core/field-names.ts";
import { read } from "./markdown.ts";

const page = read("docs/headers.md");

/** The names in the first column of the table behind a heading. */
function namesBehind(heading: string): string[] {
  const section = page.split(`${heading}\n`)[1]?.split(/^#/m)[0] ?? "";
  const rows = [...section.matchAll(/^\| (`.+?) \| .+ \|$/gm)];
  expect(rows.length).toBeGreaterThan(5);
  return rows.flatMap(([, names = ""]) => [...names.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name.toLowerCase()));
}

test("what it says is removed, is", () => {
  const shown = namesBehind("## Headers that only a trusted proxy may send");
  expect(shown.sort()).toEqual([...vouchingNames, "x-forwarded-*"].sort());
});

test("what it says passes, does, and can be listed", () => {
  const shown = namesBehind("### Other headers that vouch for something: dropHeaders");
  expect(new Set(shown).size).toBe(shown.length);
  const { item } = clientAddress.keys.dropHeaders;
  for (const name of shown) {
    expect([name, fixedFieldNames.isDropped(name), ownNames.has(name)]).toEqual([name, false, false]);
    expect([name, item.parse(name)]).toEqual([name, name]);
  }
});
