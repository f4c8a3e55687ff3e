// The manifests of deploy/kubernetes: as they are written, and as kustomize renders them.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { kubectl } from "./kubernetes-tools.ts";
import { isMapping, type Mapping } from "./shape.ts";

export const folder = fileURLToPath(new URL("../../deploy/kubernetes/", import.meta.url));
/** Those with a gateway. */
export const overlays = ["sidecar", "companion", "gateway-api", "replicas"];

export interface Manifest extends Mapping {
  readonly kind: string;
  readonly metadata: Mapping & { readonly name: string; readonly labels?: Mapping };
  readonly spec: Mapping;
}

/** With the network that a person has to write into it. */
export const filledIn = (text: string): string => text.replaceAll("POD_NETWORK", "10.244.0.0/16");

/**
 * Every document of a text, as Helm and kubectl read it: in YAML 1.1 `on` is a boolean. What is not YAML of one meaning (a key
 * twice, say) is an error.
 */
export function parseManifests(yaml: string): Manifest[] {
  return parseAllDocuments(yaml, { uniqueKeys: true, version: "1.1" }).map((document) => {
    const [error] = [...document.errors, ...document.warnings];
    if (error !== undefined) throw error;
    return document.toJS() as Manifest;
  });
}

export function readManifests(path: string): Manifest[] {
  return parseManifests(readFileSync(`${folder}${path}`, "utf8"));
}

const rendered = new Map<string, Manifest[]>();

/** What `kubectl apply -k` would send. */
export function render(overlay: string): Manifest[] {
  const manifests = rendered.get(overlay) ?? runKubectl(overlay);
  rendered.set(overlay, manifests);
  return manifests;
}

/** The same of a kustomization that a person writes; it names ours as `../headgate/deploy/…`. */
export function renderOwn(kustomization: string): Manifest[] {
  const own = mkdtempSync(join(tmpdir(), "headgate-kustomization-"));
  try {
    const repository = relative(own, join(folder, "../.."));
    writeFileSync(join(own, "kustomization.yaml"), kustomization.replaceAll("../headgate", repository));
    return runKubectl(relative(folder, own));
  } finally {
    rmSync(own, { recursive: true });
  }
}

function runKubectl(overlay: string): Manifest[] {
  const { status, stdout, stderr } = spawnSync(kubectl, ["kustomize", join(folder, overlay)], { encoding: "utf8" });
  if (status !== 0 || stderr !== "") throw new Error(`kubectl ended with ${status}: ${stderr}`);
  return parseManifests(filledIn(stdout));
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
