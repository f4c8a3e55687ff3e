// The files of the chart that are made from others are up to date, and its README says of each value what it is.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { chartFiles } from "../../deploy/helm/source/chart-files.ts";
import { isMapping, type Mapping } from "./shape.ts";

const readChartFile = (path: string): string =>
  readFileSync(new URL(`../../deploy/helm/headgate/${path}`, import.meta.url), "utf8");

test("npm run chart has been run since its sources changed", () => {
  for (const [path, text] of chartFiles()) expect([path, readChartFile(path) === text]).toEqual([path, true]);
});

test("the README has a row for each value that has no values of its own", () => {
  const rows = new Set([...readChartFile("README.md").matchAll(/^\| `([\w.]+)` \|/gm)].map(([, path]) => path));
  const missing = (value: Mapping, path: string[] = []): string[] =>
    Object.entries(value).flatMap(([key, inner]) => {
      const here = [...path, key];
      if (isMapping(inner) && Object.keys(inner).length > 0 && !rows.has(here.join("."))) return missing(inner, here);
      return rows.has(here.join(".")) ? [] : [here.join(".")];
    });
  expect(missing(parse(readChartFile("values.yaml")))).toEqual([]);
});
