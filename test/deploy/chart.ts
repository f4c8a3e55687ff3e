// The chart of deploy/helm, rendered by Helm, and compared with what an overlay makes.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { parse } from "yaml";
import { helm } from "./kubernetes-tools.ts";
import { type Manifest, parseManifests } from "./manifests.ts";
import { isMapping, type Mapping } from "./shape.ts";

export const chartFolder = fileURLToPath(new URL("../../deploy/helm/headgate/", import.meta.url));
export const readChartFile = (path: string): string => readFileSync(`${chartFolder}${path}`, "utf8");
export const chart: Mapping = parse(readChartFile("Chart.yaml"));
export const values: Mapping = parse(readChartFile("values.yaml"));
/** What has no default. */
export const required = {
  config: { upstream: { url: "http://finance-backend:3000" }, clientAddress: { trustedProxies: ["10.244.0.0/16"] } },
};

/** As a person calls Helm, with values from a file. */
export function runHelm(
  args: readonly string[],
  changes: Mapping | string,
): { status: number | null; out: string; err: string } {
  const input = typeof changes === "string" ? changes : JSON.stringify(changes);
  const { status, stdout, stderr } = spawnSync(helm, [...args, "--values", "-"], { encoding: "utf8", input });
  return { status, out: stdout, err: stderr };
}

const rendered = new Map<string, Manifest[]>();

/** `changes` go over the values and what is required, mapping into mapping. Of `helm test`'s objects only with `isTest`. */
export function template(changes: Mapping = {}, release = "headgate", isTest = false): Manifest[] {
  const given = merge(required, changes);
  const key = JSON.stringify([given, release]);
  const manifests = rendered.get(key) ?? renderChart(given, release);
  rendered.set(key, manifests);
  return manifests.filter(({ metadata }) => ("annotations" in metadata && isHook(metadata["annotations"])) === isTest);
}

const isHook = (annotations: unknown): boolean => isMapping(annotations) && "helm.sh/hook" in annotations;

function renderChart(given: Mapping, release: string): Manifest[] {
  const { status, out, err } = runHelm(["template", release, chartFolder, "--namespace", "finance"], given);
  if (status !== 0) throw new Error(err);
  return parseManifests(out);
}

export function merge(base: Mapping, over: Mapping): Mapping {
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = merged[key];
    merged[key] = isMapping(below) && isMapping(value) ? merge(below, value) : value;
  }
  return merged;
}

/** The same objects with the same contents, but for what only Helm does and for the configuration. */
export function expectSameObjects(ofChart: readonly Manifest[], ofOverlay: readonly Manifest[]): void {
  const own = ofChart.filter(({ kind }) => kind !== "ServiceAccount");
  expect(own.map(nameOf).sort()).toEqual(ofOverlay.map(nameOf).sort());
  for (const manifest of ofOverlay) {
    expect(comparable(own.find((one) => nameOf(one) === nameOf(manifest)))).toEqual(comparable(manifest));
  }
}

/** Without the hash at the end of a generated name. */
export function nameOf({ kind, metadata }: Manifest): string {
  return `${kind} ${withoutHash(metadata.name)}`;
}

const withoutHash = (name: string): string => name.replace(/-[a-z0-9]{10}$/, "");

/** Only of the chart, or defaults that it writes. The configuration is compared as the gateway reads it, with the variables. */
const apart = [
  "annotations",
  "app.kubernetes.io/instance",
  "app.kubernetes.io/managed-by",
  "app.kubernetes.io/version",
  "data",
  "env",
  "helm.sh/chart",
  "imagePullPolicy",
  "namespace",
  "revisionHistoryLimit",
  "serviceAccountName",
];

function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (!isMapping(value)) return typeof value === "string" ? withoutHash(value) : value;
  const kept = Object.entries(value).filter(([key, item]) => !apart.includes(key) && item !== "ClusterIP");
  return Object.fromEntries(kept.map(([key, item]) => [key, comparable(item)]));
}
