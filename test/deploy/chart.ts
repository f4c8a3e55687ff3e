// The chart of deploy/helm, rendered, and compared with what an overlay makes.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { parse } from "yaml";
import { renderTemplate } from "./go-template.ts";
import { type Manifest, parseManifests } from "./manifests.ts";
import { isMapping, type Mapping } from "./shape.ts";

const folder = fileURLToPath(new URL("../../deploy/helm/headgate/", import.meta.url));
export const readChartFile = (path: string): string => readFileSync(`${folder}${path}`, "utf8");
export const chart: Mapping = parse(readChartFile("Chart.yaml"));
export const values: Mapping = parse(readChartFile("values.yaml"));

/** `changes` go over the values as `--set` and `--values` do: mapping into mapping. */
export function template(changes: Mapping = {}, release = "headgate"): Manifest[] {
  const data = {
    Values: merge(values, changes),
    Release: { Name: release },
    Chart: { AppVersion: chart["appVersion"] },
  };
  const names = readdirSync(`${folder}templates`);
  const texts = names.map((name) => renderTemplate(readChartFile(`templates/${name}`), data));
  return texts.filter((one) => one.trim() !== "").flatMap(parseManifests);
}

export function merge(base: Mapping, over: Mapping): Mapping {
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = merged[key];
    merged[key] = isMapping(below) && isMapping(value) ? merge(below, value) : value;
  }
  return merged;
}

/** The same objects with the same contents, but for what only Helm does. */
export function expectSameObjects(ofChart: readonly Manifest[], ofOverlay: readonly Manifest[]): void {
  expect(ofChart.map(nameOf).sort()).toEqual(ofOverlay.map(nameOf).sort());
  for (const manifest of ofOverlay) {
    const own = ofChart.find((one) => nameOf(one) === nameOf(manifest));
    expect(comparable(own)).toEqual(comparable(manifest));
  }
}

/** Without the hash at the end of a generated name. */
export function nameOf({ kind, metadata }: Manifest): string {
  return `${kind} ${withoutHash(metadata.name)}`;
}

const withoutHash = (name: string): string => name.replace(/-[a-z0-9]{10}$/, "");

/** Without the release, the pull policy and the checksum; the configuration as what it says. */
function comparable(value: unknown, place = ""): unknown {
  if (Array.isArray(value)) return value.map((item) => comparable(item, place));
  if (place === "data.headgate.yaml") return parse(String(value));
  if (!isMapping(value)) return typeof value === "string" ? withoutHash(value) : value;
  const helms = ["app.kubernetes.io/instance", "imagePullPolicy", "annotations"];
  const kept = Object.entries(value).filter(([key]) => !helms.includes(key));
  return Object.fromEntries(kept.map(([key, item]) => [key, comparable(item, place === "" ? key : `${place}.${key}`)]));
}
