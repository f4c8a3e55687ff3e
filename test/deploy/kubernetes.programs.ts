// The manifests of deploy/kubernetes: every field is one that exists, and what one manifest says of another is so. What
// only a cluster could tell is not here.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { loadSettings } from "../../src/config/load.ts";
import type { Settings } from "../../src/core/settings.ts";
import { cannotRender } from "./kubernetes-tools.ts";
import { manifestFlaws } from "./manifest-flaws.ts";
import { at, folder, type Manifest, only, overlays, render, renderOwn } from "./manifests.ts";
import { podSecurityFlaws } from "./pod-security.ts";
import { isMapping, type Mapping } from "./shape.ts";

/** One copy for each key whose name means something to Kubernetes, with that key misspelled. */
function misspellings(value: unknown, place = ""): { place: string; changed: unknown }[] {
  if (Array.isArray(value)) {
    return value.flatMap((item, i) =>
      misspellings(item, `${place}[${i}]`).map((inner) => ({ ...inner, changed: value.with(i, inner.changed) })),
    );
  }
  if (!isMapping(value)) return [];
  return Object.entries(value).flatMap(([key, item]) => {
    const { [key]: _, ...rest } = value;
    const here = { place: `${place}.${key}`, changed: { ...rest, [`${key}x`]: item } };
    // Names that the operator chooses: labels and files.
    if (["labels", "matchLabels", "selector", "data"].includes(key) && !("matchLabels" in Object(item))) return [here];
    const inside = misspellings(item, `${place}.${key}`);
    return [here, ...inside.map((inner) => ({ ...inner, changed: { ...value, [key]: inner.changed } }))];
  });
}

interface Container {
  readonly name: string;
  readonly image: string;
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly securityContext: Mapping;
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
  readonly [key: string]: unknown;
}

interface Workload {
  readonly manifests: readonly Manifest[];
  readonly pod: Mapping & { readonly containers: readonly Container[]; readonly initContainers?: readonly Container[] };
  readonly podLabels: Mapping;
  readonly containers: readonly Container[];
  readonly gateway: Container;
  readonly settings: Settings;
}

function workload(overlay: string): Workload {
  const manifests = render(overlay);
  const deployment = only(manifests, "Deployment");
  const pod = at(deployment, "spec.template.spec") as Workload["pod"];
  const containers = [...(pod.initContainers ?? []), ...pod.containers];
  const gateway = containers.find(({ name }) => name === "headgate");
  if (gateway === undefined) throw new Error("no gateway");
  const podLabels = at(deployment, "spec.template.metadata.labels") as Mapping;
  return { manifests, pod, podLabels, containers, gateway, settings: settingsOf(manifests) };
}

const selects = (selector: unknown, labels: Mapping): boolean =>
  Object.entries(selector as Mapping).every(([key, value]) => labels[key] === value);

const portOf = ({ ports = [] }: Container, target: unknown): boolean =>
  ports.some(({ name, containerPort }) => name === target || containerPort === target);

/** What Kubernetes puts into every pod of a namespace in which there is a Service `headgate`. */
const serviceLinks = {
  HEADGATE_SERVICE_HOST: "10.96.0.10",
  HEADGATE_SERVICE_PORT: "80",
  HEADGATE_SERVICE_PORT_HTTP: "80",
  HEADGATE_PORT: "tcp://10.96.0.10:80",
  HEADGATE_PORT_80_TCP: "tcp://10.96.0.10:80",
  HEADGATE_PORT_80_TCP_ADDR: "10.96.0.10",
};

/** The gateway's configuration, read by the gateway. */
function settingsOf(manifests: readonly Manifest[]): Settings {
  const mounted = mkdtempSync(join(tmpdir(), "headgate-config-map-"));
  try {
    const file = join(mounted, "headgate.yaml");
    writeFileSync(file, String((only(manifests, "ConfigMap")["data"] as Mapping)["headgate.yaml"]));
    const loaded = loadSettings({ file, env: serviceLinks, cwd: ".", overrides: [] });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
    return loaded.settings;
  } finally {
    rmSync(mounted, { recursive: true });
  }
}

test.each([
  ["companion", ["clientAddress.trustedProxies.0", "extAuth.trustedCallers.0"]],
  ["replicas", ["clientAddress.trustedProxies.0", "extAuth.trustedCallers.0"]],
  ["components/sidecar", ["clientAddress.trustedProxies.0"]],
])("%s trusts no network until a person names it", (of, refused) => {
  const loaded = loadSettings({ file: join(folder, of, "headgate.yaml"), env: {}, cwd: ".", overrides: [] });
  expect(loaded.ok ? [] : loaded.errors.map(({ key }) => key)).toEqual(refused);
});

describe.skipIf(cannotRender).each(overlays)("%s, rendered (needs kubectl)", (overlay) => {
  test("has known fields only, and each that is misspelled would be noticed", () => {
    expect(render(overlay).flatMap(manifestFlaws)).toEqual([]);
    const changed = render(overlay).flatMap((manifest) => misspellings(manifest));
    const unnoticed = changed.filter((one) => manifestFlaws(one.changed).length === 0);
    expect(unnoticed.map(({ place }) => place)).toEqual([]);
  });

  test("every container may run where pod security is restricted, with a root that cannot be written to", () => {
    expect(podSecurityFlaws(workload(overlay).pod)).toEqual([]);
    for (const { securityContext } of workload(overlay).containers) {
      expect(securityContext["readOnlyRootFilesystem"]).toBe(true);
      // A cluster such as OpenShift chooses the user; the image's own is no root.
      expect(securityContext).not.toHaveProperty("runAsUser");
    }
  });

  test("the image is of this version", () => {
    const images = workload(overlay).containers.map(({ image }) => image);
    expect(new Set(images)).toEqual(new Set([`headgate:${packageJson.version}`]));
  });

  test("the configuration that is mounted is the one that is read, and its ports are the container's", () => {
    const { pod, gateway, settings, manifests } = workload(overlay);
    const mount = gateway.volumeMounts?.find(({ name }) => name === "headgate");
    expect(gateway["env"]).toEqual([{ name: "HEADGATE_CONFIG", value: `${mount?.mountPath}/headgate.yaml` }]);
    expect(pod["volumes"]).toContainEqual({
      name: mount?.name,
      configMap: { name: only(manifests, "ConfigMap").metadata.name },
    });
    const listeners = [
      { name: "gateway", ...settings.listen },
      { name: "gateway-admin", ...settings.admin },
      ...(settings.extAuth.http === null ? [] : [{ name: "gateway-decide", ...settings.extAuth.http }]),
    ];
    expect(gateway.ports).toEqual(listeners.map(({ name, port }) => ({ name, containerPort: port })));
    // Traffic, probes and scrapes come to the pod's address.
    expect(new Set(listeners.map(({ host }) => host))).toEqual(new Set(["0.0.0.0"]));
  });

  test("the snapshot of the counters is in a volume of the pod, where the gateway can write", () => {
    const { pod, gateway, settings } = workload(overlay);
    const folder = dirname(settings.counters.snapshot?.path ?? "");
    const mount = gateway.volumeMounts?.find(({ mountPath }) => mountPath === folder);
    expect(mount).toEqual({ name: mount?.name, mountPath: folder });
    expect(pod["volumes"]).toContainEqual({ name: mount?.name, emptyDir: {} });
  });

  test("the socket of the admin API is in a volume of its own, where the gateway can write", () => {
    const { pod, gateway, settings } = workload(overlay);
    const folder = dirname(settings.admin.socket ?? "");
    const mount = gateway.volumeMounts?.find(({ mountPath }) => mountPath === folder);
    expect(mount).toEqual({ name: mount?.name, mountPath: folder });
    expect(pod["volumes"]).toContainEqual({ name: mount?.name, emptyDir: {} });
  });

  test("the memory of the container has room for the counters", () => {
    const { gateway, settings } = workload(overlay);
    const counters = settings.counters.memoryBytes / 1024 ** 2;
    expect(at(gateway, "resources.requests.memory")).toBe(`${96 + counters}Mi`);
    expect(at(gateway, "resources.limits.memory")).toBe(`${480 + counters}Mi`);
  });

  test("probes ask the admin listener, and liveness not for more than life", () => {
    const { gateway } = workload(overlay);
    const probes = ["startupProbe", "readinessProbe", "livenessProbe"].map((probe) => at(gateway, `${probe}.httpGet`));
    expect(probes).toEqual([
      { path: "/readyz", port: "gateway-admin" },
      { path: "/readyz", port: "gateway-admin" },
      { path: "/livez", port: "gateway-admin" },
    ]);
  });

  test("the drain fits into the grace period, and not into the default of 30 s", () => {
    const { pod, settings } = workload(overlay);
    const { delayMs, timeoutMs } = settings.drain;
    const graceMs = Number(pod["terminationGracePeriodSeconds"]) * 1_000;
    expect(graceMs).toBeGreaterThanOrEqual(delayMs + timeoutMs + 10_000);
    // Longer than readiness takes to be noticed.
    const { periodSeconds, failureThreshold } = at(workload(overlay).gateway, "readinessProbe") as Record<
      string,
      number
    >;
    expect(delayMs).toBeGreaterThan(Number(periodSeconds) * Number(failureThreshold) * 1_000);
  });

  test("what is selected is there: by Services, policies and budgets", () => {
    const { manifests, podLabels, gateway } = workload(overlay);
    const services = manifests.filter(({ kind }) => kind === "Service");
    expect(services.length).toBeGreaterThan(0);
    for (const { spec } of services) {
      expect(selects(spec["selector"], podLabels)).toBe(true);
      expect((spec["ports"] as Mapping[]).every((port) => portOf(gateway, port["targetPort"]))).toBe(true);
    }
    const { spec: policy } = only(manifests, "NetworkPolicy");
    expect(selects(at(policy, "podSelector.matchLabels"), podLabels)).toBe(true);
    const admitted = (policy["ingress"] as Mapping[]).flatMap((rule) => rule["ports"] as Mapping[]);
    expect(admitted.map(({ port }) => port).sort()).toEqual(gateway.ports?.map((one) => one.containerPort).sort());
    for (const { kind, spec } of manifests) {
      if (kind === "PodDisruptionBudget") expect(selects(at(spec, "selector.matchLabels"), podLabels)).toBe(true);
    }
  });

  test("a Deployment selects the pods it makes", () => {
    const { manifests, podLabels } = workload(overlay);
    expect(podLabels).toMatchObject(at(only(manifests, "Deployment"), "spec.selector.matchLabels") as object);
  });
});

test.skipIf(cannotRender)("one replica each, unless the counters are shared", () => {
  for (const overlay of overlays) {
    const { manifests, settings } = workload(overlay);
    const isShared = settings.counters.redis !== null;
    expect(at(only(manifests, "Deployment"), "spec.replicas")).toBe(isShared ? 2 : 1);
    expect(isShared).toBe(overlay === "replicas");
  }
});

test.skipIf(cannotRender)("the sidecar is native, reaches the application, and is outlived by it", () => {
  const { pod, gateway, settings } = workload("sidecar");
  expect(pod.initContainers).toEqual([gateway]);
  expect(gateway["restartPolicy"]).toBe("Always");
  const [application] = pod.containers;
  const args = application?.["args"] as string[];
  expect(settings.upstream.url).toBe(`http://${args[2]}:${args[4]}`);
  const { delayMs, timeoutMs } = settings.drain;
  expect(Number(at(application, "lifecycle.preStop.sleep.seconds")) * 1_000).toBe(delayMs + timeoutMs);
});

test.skipIf(cannotRender)("the route of the Gateway API leads to the companion's Service", () => {
  const manifests = render("gateway-api");
  const route = only(manifests, "HTTPRoute");
  const backend = at(route, "spec.rules.0.backendRefs.0") as { name: string; port: number };
  const service = manifests.find(({ kind, metadata }) => kind === "Service" && metadata.name === backend.name);
  expect(at(service, "spec.ports.0.port")).toBe(backend.port);
  const gateway = only(manifests, "Gateway");
  expect(at(route, "spec.parentRefs.0")).toEqual({
    name: gateway.metadata.name,
    sectionName: at(gateway, "spec.listeners.0.name"),
  });
});

test.skipIf(cannotRender)("the kustomization in the docs renders, with its image and in its namespace", () => {
  const docs = readFileSync(new URL("../../docs/kubernetes.md", import.meta.url), "utf8");
  const example = /```yaml\n( *# kustomization\.yaml\n.*?)```/s.exec(docs)?.[1] ?? "";
  const deployment = only(renderOwn(example), "Deployment");
  expect(deployment.metadata["namespace"]).toBe("finance");
  const images = ["initContainers", "containers"].map((kind) => at(deployment, `spec.template.spec.${kind}.0.image`));
  const image = `registry.example.com/headgate:${packageJson.version}`;
  expect(images).toEqual([image, image]);
});

const withMonitor = [
  { overlay: "companion", component: "service-monitor", kind: "ServiceMonitor" },
  { overlay: "sidecar", component: "pod-monitor", kind: "PodMonitor" },
];

test.skipIf(cannotRender).each(withMonitor)(
  "the component $component finds the gateways of $overlay, which needs no operator without it",
  ({ overlay, component, kind }) => {
    expect(render(overlay).map(({ apiVersion }) => apiVersion)).not.toContain("monitoring.coreos.com/v1");
    const path = "../headgate/deploy/kubernetes";
    const manifests = renderOwn(`resources: [${path}/${overlay}]\ncomponents: [${path}/components/${component}]\n`);
    expect(manifests.flatMap(manifestFlaws)).toEqual([]);
    const { spec } = only(manifests, kind);
    const { podLabels, gateway } = workload(overlay);
    if (kind === "PodMonitor") {
      expect(selects(at(spec, "selector.matchLabels"), podLabels)).toBe(true);
      expect(portOf(gateway, at(spec, "podMetricsEndpoints.0.port"))).toBe(true);
    } else {
      const services = manifests.filter((one) => one.kind === "Service");
      const chosen = services.filter((one) => selects(at(spec, "selector.matchLabels"), one.metadata.labels ?? {}));
      expect(chosen.map((one) => at(one, "spec.ports.0.name"))).toEqual([at(spec, "endpoints.0.port")]);
      expect(chosen.map(({ metadata: { labels = {} } }) => labels[`${spec["jobLabel"]}`])).toEqual(["headgate"]);
    }
  },
);
