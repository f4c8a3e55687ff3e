import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { apiReference } from "../../config/source/api-reference.ts";

test("the calls in docs/api.md are those of the schemas: run `npm run api` after a change", async () => {
  const page = readFileSync(new URL("../../docs/api.md", import.meta.url), "utf8");
  const reference = /<!-- all calls: npm run api -->\n(.*)<!-- end of all calls -->/s.exec(page)?.[1];
  expect(reference).toBe(await apiReference());
});
