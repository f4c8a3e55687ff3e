// Which format a scraper gets, by its Accept field.
import { expect, test } from "vitest";
import { wantsOpenMetrics } from "../../src/admin/request-fields.ts";

const openMetrics = "application/openmetrics-text";

test.each([
  [undefined, false],
  ["", false],
  ["*/*", false],
  ["text/plain", false],
  ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false],
  [openMetrics, true],
  [`${openMetrics}; version=1.0.0; charset=utf-8`, true],
  [`${openMetrics};version="1.0.0"`, true],
  [openMetrics.toUpperCase(), true],
  [`${openMetrics};version=0.0.1`, false],
  [`${openMetrics};version=2.0.0`, false],
  [`${openMetrics};q=0`, false],
  [`${openMetrics};q=0.000,text/plain`, false],
  [`${openMetrics};q=0.5,text/plain;q=0.4`, true],
  [`${openMetrics};q=0.4,text/plain;q=0.5`, false],
  [`${openMetrics};q=0.5,text/plain;q=0.5`, true],
  [`${openMetrics};q=0.4,text/*;q=0.5`, false],
  [`${openMetrics};q=0.4,*/*`, false],
  [`${openMetrics};q=0.4,text/plain;q=0.1,*/*`, true],
  [`${openMetrics};q=2`, false],
  // Beyond 100 ranges, or ten parameters, nothing is read.
  [`${"a/b,".repeat(99)}${openMetrics}`, true],
  [`${"a/b,".repeat(100)}${openMetrics}`, false],
  [`${openMetrics}${";a".repeat(9)};q=0`, false],
  [`${openMetrics}${";a".repeat(10)};q=0`, true],
  [`${openMetrics};q=nonsense`, false],
  [`${openMetrics}-but-not-quite`, false],
  // Prometheus 2 and 3
  [`${openMetrics};version=1.0.0,${openMetrics};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1`, true],
  [
    `${openMetrics};version=1.0.0;escaping=allow-utf-8;q=0.6,${openMetrics};version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2`,
    true,
  ],
])("Accept: %s → OpenMetrics: %s", (accept, wanted) => {
  expect(wantsOpenMetrics(accept)).toBe(wanted);
});
