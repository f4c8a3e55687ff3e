import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { configReference } from "../../config/source/reference.ts";

test("the keys in docs/configuration.md are the definition's: run `npm run schema` after a change", () => {
  const page = readFileSync(new URL("../../docs/configuration.md", import.meta.url), "utf8");
  const reference = /<!-- all keys: npm run schema -->\n(.*)<!-- end of all keys -->/s.exec(page)?.[1];
  expect(reference).toBe(configReference());
});
