import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { metricReference } from "../../config/source/metric-reference.ts";

test("the metrics in docs/metrics.md are those of a scrape, with their labels: run `npm run api` after a change", async () => {
  const page = readFileSync(new URL("../../docs/metrics.md", import.meta.url), "utf8");
  const [, written] = /<!-- all metrics: npm run api -->\n(.*)<!-- end of all metrics -->/s.exec(page) ?? [];
  expect(written).toBe(await metricReference());
});
