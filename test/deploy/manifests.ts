// The manifests of deploy/kubernetes: as they are written, and as kustomize renders them.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { isMapping, type Mapping } from "./shape.ts";

export const folder = fileURLToPath(new URL("../../deploy/kubernetes/", import.meta.url));
/** Those with a gateway. */
export const overlays = ["sidecar", "companion", "gateway-api", "replicas"];

export interface Manifest extends Mapping {
  readonly kind: string;
  readonly metadata: Mapping & { readonly name: string; readonly labels?: Mapping };
  readonly spec: Mapping;
}

/** Every document of a text; what is not YAML of one meaning (a key twice, say) is an error. */
export function parseManifests(yaml: string): Manifest[] {
  return parseAllDocuments(yaml, { uniqueKeys: true }).map((document) => {
    const [error] = [...document.errors, ...document.warnings];
    if (error !== undefined) throw error;
    return document.toJS() as Manifest;
  });
}

/** Below deploy/kubernetes; headgate.yaml is the gateway's own configuration and no manifest. */
export const manifestFiles = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".yaml") && !path.endsWith("headgate.yaml"))
  .sort();

export function readManifests(path: string): Manifest[] {
  return parseManifests(readFileSync(`${folder}${path}`, "utf8"));
}

const renderers = [
  { command: "kubectl", asked: ["kustomize", "--help"], render: ["kustomize"] },
  { command: "kustomize", asked: ["version"], render: ["build"] },
];
const renderer = renderers.find(({ command, asked }) => spawnSync(command, asked).status === 0);
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
export const cannotRender = renderer === undefined && HEADGATE_REQUIRE !== "all";

const rendered = new Map<string, Manifest[]>();

/** What `kubectl apply -k` would send. */
export function render(overlay: string): Manifest[] {
  const manifests = rendered.get(overlay) ?? runRenderer(overlay);
  rendered.set(overlay, manifests);
  return manifests;
}

function runRenderer(overlay: string): Manifest[] {
  if (renderer === undefined) throw new Error("neither kubectl nor kustomize is installed");
  const { command, render } = renderer;
  const { status, stdout, stderr } = spawnSync(command, [...render, `${folder}${overlay}`], { encoding: "utf8" });
  if (status !== 0 || stderr !== "") throw new Error(`${command} ended with ${status}: ${stderr}`);
  return parseManifests(stdout);
}

/** The value at a path like `spec.template.spec`; throws if nothing is there. */
export function at(value: unknown, path: string): unknown {
  return path.split(".").reduce((inner: unknown, key) => {
    const next = isMapping(inner) ? inner[key] : Array.isArray(inner) ? inner[Number(key)] : undefined;
    if (next === undefined) throw new Error(`nothing at ${path} (${key})`);
    return next;
  }, value);
}

export function only(manifests: readonly Manifest[], kind: string): Manifest {
  const found = manifests.filter((manifest) => manifest.kind === kind);
  if (found.length !== 1 || found[0] === undefined) throw new Error(`${found.length} of kind ${kind}`);
  return found[0];
}
