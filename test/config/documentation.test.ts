import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { configTable } from "../../src/config/written.ts";

test("the table in docs/configuration.md is the definition's: run `npm run schema` after a change", () => {
  const page = readFileSync(new URL("../../docs/configuration.md", import.meta.url), "utf8");
  const table = /<!-- config table: npm run schema -->\n(.*)<!-- end of config table -->/s.exec(page)?.[1];
  expect(table).toBe(configTable());
});
