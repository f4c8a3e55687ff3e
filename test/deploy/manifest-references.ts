// What manifests say of each other and of themselves: an API server refuses a mount without its volume or a name that stands twice,
// and accepts a Service that leads nowhere without a word.
import type { Manifest } from "./manifests.ts";
import { isMapping, type Mapping } from "./shape.ts";

/** What leads nowhere or stands twice; empty if nothing. `outside` are names of objects that others make. */
export function referenceFlaws(manifests: readonly Manifest[], outside: readonly string[] = []): string[] {
  const pods = manifests.flatMap(podOf);
  return manifests.flatMap((manifest) => [
    ...podOf(manifest).flatMap((pod) => podFlaws(pod, manifests, outside)),
    ...leadFlaws(manifest, manifests, pods),
  ]);
}

interface Pod {
  readonly of: string;
  readonly labels: Mapping;
  readonly spec: Mapping;
  /** Names of the claims that a StatefulSet makes. */
  readonly claims: readonly string[];
}

function podOf({ kind, metadata, spec }: Manifest): Pod[] {
  const template = kind === "Pod" ? { metadata, spec } : mapping(spec?.["template"]);
  if (!["Deployment", "Pod", "StatefulSet"].includes(kind)) return [];
  const labels = mapping(mapping(template["metadata"])["labels"]);
  const claims = list(spec["volumeClaimTemplates"]).map((claim) => `${mapping(claim["metadata"])["name"]}`);
  return [{ of: `${kind} ${metadata.name}`, labels, spec: mapping(template["spec"]), claims }];
}

function podFlaws(pod: Pod, manifests: readonly Manifest[], outside: readonly string[]): string[] {
  const containers = [...list(pod.spec["initContainers"]), ...list(pod.spec["containers"])];
  const volumes = [...list(pod.spec["volumes"]).map(nameOf), ...pod.claims];
  const flaws = [...twice(volumes, "volume"), ...twice(containers.map(nameOf), "container")];
  for (const container of containers) {
    const mounts = list(container["volumeMounts"]);
    const ports = list(container["ports"]);
    flaws.push(
      ...twice(
        mounts.map((mount) => `${mount["mountPath"]}`),
        "mount",
      ),
    );
    flaws.push(...twice(list(container["env"]).map(nameOf), "variable"), ...twice(ports.map(nameOf), "port"));
    flaws.push(
      ...twice(
        ports.map((port) => `${port["containerPort"]}`),
        "port",
      ),
    );
    for (const mount of mounts) if (!volumes.includes(nameOf(mount))) flaws.push(`no volume ${nameOf(mount)}`);
    for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"]) {
      const { port } = mapping(mapping(container[probe])["httpGet"]);
      if (port !== undefined && !ports.some((one) => isPort(one, port))) flaws.push(`${probe}: no port ${port}`);
    }
  }
  const configMaps = list(pod.spec["volumes"]).flatMap((volume) =>
    isMapping(volume["configMap"]) ? [volume["configMap"]] : [],
  );
  for (const name of configMaps.map(nameOf)) {
    if (!has(manifests, "ConfigMap", name) && !outside.includes(name)) flaws.push(`no ConfigMap ${name}`);
  }
  const account = pod.spec["serviceAccountName"];
  if (account !== undefined && account !== "default" && !has(manifests, "ServiceAccount", `${account}`)) {
    flaws.push(`no ServiceAccount ${account}`);
  }
  return flaws.map((flaw) => `${pod.of}: ${flaw}`);
}

/** Of what selects pods or names Services. */
function leadFlaws(manifest: Manifest, manifests: readonly Manifest[], pods: readonly Pod[]): string[] {
  const { kind, metadata, spec } = manifest;
  const flaws: string[] = [];
  const selected = (labels: unknown) => pods.filter((pod) => selects(labels, pod.labels));
  if (kind === "Service") {
    const ports = selected(spec["selector"]).flatMap((pod) =>
      list(pod.spec["containers"]).flatMap((one) => list(one["ports"])),
    );
    for (const port of list(spec["ports"])) {
      if (!ports.some((one) => isPort(one, port["targetPort"]))) flaws.push(`no port ${port["targetPort"]}`);
    }
    flaws.push(
      ...twice(
        list(spec["ports"]).map((port) => `${port["port"]}`),
        "port",
      ),
    );
  }
  if (["Deployment", "StatefulSet", "PodDisruptionBudget"].includes(kind)) {
    if (selected(mapping(spec["selector"])["matchLabels"]).length !== 1) flaws.push("selects not one kind of pods");
  }
  for (const { name, port } of backendsOf(manifest)) {
    const service = manifests.find((one) => one.kind === "Service" && one.metadata.name === name);
    const isServed = list(service?.spec["ports"]).some((one) => one["port"] === port || one["name"] === port);
    if (!isServed) flaws.push(`no Service ${name} with port ${port}`);
  }
  const target = mapping(spec?.["scaleTargetRef"]);
  if (kind === "HorizontalPodAutoscaler" && !has(manifests, `${target["kind"]}`, `${target["name"]}`))
    flaws.push("no target");
  if (kind === "ServiceMonitor") {
    const services = manifests.filter(
      (one) => one.kind === "Service" && selects(mapping(spec["selector"])["matchLabels"], one.metadata.labels),
    );
    const [port] = list(spec["endpoints"]).map((endpoint) => endpoint["port"]);
    if (services.length !== 1 || !list(services[0]?.spec["ports"]).some(({ name }) => name === port))
      flaws.push("monitors not one Service");
  }
  return flaws.map((flaw) => `${kind} ${metadata.name}: ${flaw}`);
}

function backendsOf({ kind, spec }: Manifest): { name: unknown; port: unknown }[] {
  const rules = list(spec?.["rules"]);
  if (kind === "HTTPRoute")
    return rules.flatMap((rule) => list(rule["backendRefs"])).map(({ name, port }) => ({ name, port }));
  if (kind !== "Ingress") return [];
  return rules
    .flatMap((rule) => list(mapping(rule["http"])["paths"]))
    .map((path) => {
      const service = mapping(mapping(path["backend"])["service"]);
      const port = mapping(service["port"]);
      return { name: service["name"], port: port["name"] ?? port["number"] };
    });
}

const mapping = (value: unknown): Mapping => (isMapping(value) ? value : {});
const list = (value: unknown): Mapping[] => (Array.isArray(value) ? value.filter(isMapping) : []);
const nameOf = (one: Mapping): string => `${one["name"]}`;
const isPort = (port: Mapping, asked: unknown): boolean => port["name"] === asked || port["containerPort"] === asked;
const has = (manifests: readonly Manifest[], kind: string, name: string): boolean =>
  manifests.some((one) => one.kind === kind && one.metadata.name === name);
const twice = (names: readonly string[], what: string): string[] =>
  names.filter((name, i) => name !== "undefined" && names.indexOf(name) !== i).map((name) => `${what} ${name} twice`);

const selects = (selector: unknown, labels: unknown): boolean =>
  Object.entries(mapping(selector)).every(([key, value]) => mapping(labels)[key] === value);
