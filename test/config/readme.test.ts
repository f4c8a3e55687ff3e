import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { configTable } from "../../src/config/written.ts";

test("the README's table is the definition's: run `npm run schema` after a change", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const table = /<!-- config table: npm run schema -->\n(.*)<!-- end of config table -->/s.exec(readme)?.[1];
  expect(table).toBe(configTable());
});
