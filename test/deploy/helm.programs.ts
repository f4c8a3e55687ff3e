// The chart of deploy/helm, rendered by Helm: with its values as they are it makes what the companion overlay makes, each value does
// something that Kubernetes accepts, and what Helm does to a configuration is caught or harmless.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import packageJson from "../../package.json" with { type: "json" };
import { loadSettings } from "../../src/config/load.ts";
import {
  chart,
  chartFolder,
  expectSameObjects,
  merge,
  nameOf,
  readChartFile,
  required,
  runHelm,
  template,
  values,
} from "./chart.ts";
import { cases, everything } from "./chart-values.ts";
import { cannotRender, helm } from "./kubernetes-tools.ts";
import { manifestFlaws } from "./manifest-flaws.ts";
import { referenceFlaws } from "./manifest-references.ts";
import { at, type Manifest, only, parseManifests, render } from "./manifests.ts";
import { podSecurityFlaws } from "./pod-security.ts";
import { isMapping, type Mapping } from "./shape.ts";

/** What an upgrade may not change: the API server refuses it, or the pods of a Deployment would be left over. */
const fixed: Readonly<Record<string, readonly string[]>> = {
  Deployment: ["selector"],
  StatefulSet: ["selector", "serviceName", "volumeClaimTemplates"],
  Service: ["clusterIP"],
};
/** Those that do, as a StatefulSet's or a Service's owner knows. */
const changesWhatIsFixed = [
  "persistence.size",
  "persistence.storageClassName",
  "persistence.accessModes",
  "persistence.annotations",
  "persistence.labels",
  "service.clusterIP",
];

const set = (path: string, value: unknown): Mapping =>
  path.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), value) as Mapping;

const podsOf = (manifests: readonly Manifest[]): Mapping[] =>
  manifests.flatMap(({ kind, spec }) => {
    if (kind === "Pod") return [spec];
    return ["Deployment", "StatefulSet"].includes(kind) ? [at(spec, "template.spec") as Mapping] : [];
  });

const pod = (changes: Mapping) => at(only(template(changes), "Deployment"), "spec.template.spec") as Mapping;
const container = (changes: Mapping) => at(pod(changes), "containers.0") as Mapping;
const service = (manifests: readonly Manifest[], name = "headgate") =>
  manifests.find(({ kind, metadata }) => kind === "Service" && metadata.name === name);

const root = fileURLToPath(new URL("../../", import.meta.url));
const readFromRoot = (path: string): string => readFileSync(join(root, path), "utf8");
const readPage = (page: string): string => readFromRoot(`docs/${page}`);

/** What the gateway says of the configuration that it would get in the pod. */
function configurationFlaws(manifests: readonly Manifest[]): unknown {
  const folder = mkdtempSync(join(tmpdir(), "headgate-chart-"));
  try {
    const file = join(folder, "headgate.yaml");
    writeFileSync(file, String((only(manifests, "ConfigMap")["data"] as Mapping)["headgate.yaml"]));
    const workload = only(manifests, "Deployment");
    const variables = at(workload, "spec.template.spec.containers.0.env") as { name: string; value: string }[];
    const env = Object.fromEntries(variables.map(({ name, value }) => [name, value]));
    const loaded = loadSettings({ file, env, cwd: ".", overrides: [] });
    return loaded.ok ? [] : loaded.errors;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function leaves(value: Mapping, path: readonly string[] = []): string[] {
  return Object.entries(value).flatMap(([key, inner]) => {
    const here = [...path, key];
    const name = here.join(".");
    // Below these, keys are Kubernetes' own.
    if (name in cases || !isMapping(inner) || Object.keys(inner).length === 0) return [name];
    return leaves(inner, here);
  });
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

const including = (text: string): string => expect.stringContaining(text);

describe.skipIf(cannotRender)("the chart (needs Helm: npm ci --prefix test/deploy/kubernetes-tools)", () => {
  test("the same objects with the same contents as the companion overlay, but for what only Helm does", () => {
    const extAuth = { http: { enabled: true }, trustedCallers: ["10.244.0.0/16"] };
    expectSameObjects(template({ config: { extAuth } }), render("companion"));
  });

  test("helm lint has nothing to say, with the fewest values and with all", () => {
    for (const changes of [required, merge(required, everything)]) {
      const { status, out } = runHelm(["lint", "--strict", chartFolder], changes);
      expect([status, out.match(/\[(WARNING|ERROR)\].*/g)]).toEqual([0, null]);
    }
  });

  test("every value of values.yaml is in the table of cases", () => {
    const known = Object.keys(cases).filter((path) => !path.startsWith("global."));
    expect(leaves(values).sort()).toEqual(known.sort());
  });

  test.each(Object.entries(cases))("%s changes what is installed to something that Kubernetes accepts", (path, one) => {
    const before = merge(everything, one.with ?? {});
    const [old, now] = [template(before), template(merge(before, set(path, one.to)))];
    expect(now).not.toEqual(old);
    expect(now.flatMap(manifestFlaws)).toEqual([]);
    expect(referenceFlaws(now, ["configured-elsewhere", "files"])).toEqual([]);
    expect(podsOf(now).flatMap(podSecurityFlaws)).toEqual([]);
    const names = now.map(nameOf);
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
    if (changesWhatIsFixed.includes(path)) return;
    for (const manifest of now) {
      const same = old.find((other) => nameOf(other) === nameOf(manifest));
      for (const field of fixed[manifest.kind] ?? []) {
        if (same !== undefined) expect([field, same.spec[field]]).toEqual([field, manifest.spec[field]]);
      }
    }
  });

  test("values that are called as Kubernetes calls them are passed on as they are", () => {
    const to = (path: string) => cases[path]?.to;
    const ofPod = [
      ...["imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName", "runtimeClassName"],
      ...["schedulerName", "hostAliases", "dnsPolicy", "dnsConfig", "initContainers", "automountServiceAccountToken"],
    ];
    for (const key of ofPod) expect([key, pod({ [key]: to(key) })[key]]).toEqual([key, to(key)]);
    for (const key of ["envFrom", "lifecycle"]) expect(container({ [key]: to(key) })[key]).toEqual(to(key));
    const ofService = Object.keys(values["service"] as Mapping).filter(
      (key) => !/[pP]orts?$|Protocol$|^(labels|annotations)$/.test(key),
    );
    for (const key of ofService) {
      const { spec } = service(template({ service: { [key]: to(`service.${key}`) } })) ?? {};
      expect([key, spec?.[key]]).toEqual([key, to(`service.${key}`)]);
    }
    const more = { extraEnv: to("extraEnv"), extraVolumes: to("extraVolumes"), extraContainers: to("extraContainers") };
    expect(container(more)["env"]).toEqual(expect.arrayContaining(more.extraEnv as unknown[]));
    expect(pod(more)["volumes"]).toEqual(expect.arrayContaining(more.extraVolumes as unknown[]));
    expect(pod(more)["containers"]).toEqual(expect.arrayContaining(more.extraContainers as unknown[]));
    const account = { create: false, name: "limiter" };
    expect(pod({ serviceAccount: account })["serviceAccountName"]).toBe("limiter");
    expect(template({ serviceAccount: account }).map(({ kind }) => kind)).not.toContain("ServiceAccount");
    const labelled = { podLabels: { team: "edge", "app.kubernetes.io/name": "other" }, podAnnotations: { a: "b" } };
    const metadata = at(only(template(labelled), "Deployment"), "spec.template.metadata");
    // What is selected by stays.
    expect(metadata).toMatchObject({
      labels: { team: "edge", "app.kubernetes.io/name": "headgate" },
      annotations: { a: "b" },
    });
    for (const [kind, key] of [
      ["ServiceMonitor", "serviceMonitor"],
      ["PrometheusRule", "prometheusRule"],
    ] as const) {
      const manifest = only(template({ [key]: { enabled: true, labels: { release: "prometheus" } } }), kind);
      expect(manifest.metadata.labels).toMatchObject({ release: "prometheus" });
    }
  });

  test.each(leaves(values).filter((path) => !path.startsWith("config")))(
    "%s as null renders, or is refused with its name",
    (path) => {
      const { status, out, err } = runHelm(
        ["template", "headgate", chartFolder],
        merge(merge(required, everything), set(path, null)),
      );
      if (status === 0) expect(parse(out.split("\n---\n")[0] ?? "")).not.toBeNull();
      else expect(err).toMatch(/the specifications of the schema|is not set|needs/);
    },
  );

  // Digits alone are a name of a namespace or a Secret, and what else YAML would take for a number, for nothing or for more lines.
  test.each(leaves(values).filter((path) => typeof at(values, path) === "string" && !path.startsWith("config")))(
    "%s is text in the manifests, whatever stands in it, or is refused",
    (path) => {
      const given = merge(merge(required, everything), cases[path]?.with ?? {});
      for (const text of ["12345", "1e5", "x # y", "x\n            optional: true\nkind: List"]) {
        const { status, out, err } = runHelm(["template", "headgate", chartFolder], merge(given, set(path, text)));
        if (status !== 0) expect(err).toMatch(/the specifications of the schema/);
        else expect(textsIn(out.split(/^---\n/m).map((manifest) => parse(manifest)))).toContainEqual(including(text));
      }
    },
  );

  test("a namespace of digits is text", () => {
    const changes = merge(merge(required, everything), { serviceMonitor: { enabled: true, namespace: "67890" } });
    const { out } = runHelm(["template", "headgate", chartFolder, "--namespace", "12345"], changes);
    const found = out.match(/(?<=^ *(?:namespace|matchNames): ).*/gm);
    expect(new Set(found)).toEqual(new Set(['"12345"', '"67890"', '["12345"]']));
  });

  test("the pods of helm test are restricted, and their policy admits them alone", () => {
    const manifests = template({}, "headgate", true);
    expect(manifests.map(({ kind }) => kind).sort()).toEqual(["NetworkPolicy", "Pod"]);
    expect(manifests.flatMap(manifestFlaws)).toEqual([]);
    expect(podsOf(manifests).flatMap(podSecurityFlaws)).toEqual([]);
    const from = at(only(manifests, "NetworkPolicy"), "spec.ingress.0.from.0.podSelector.matchLabels");
    expect(only(manifests, "Pod").metadata.labels).toMatchObject(from as object);
    expect(template({ networkPolicy: { enabled: false } }, "headgate", true).map(({ kind }) => kind)).toEqual(["Pod"]);
  });

  test("OpenShift chooses user and group: no pod names one, if these three values are null", () => {
    const free = { podSecurityContext: null, store: { trial: { runAsUser: null } }, persistence: { enabled: true } };
    const text = JSON.stringify(podsOf(template(merge(everything, free))));
    expect(text).not.toMatch(/runAsUser|runAsGroup|fsGroup/);
    // Without a volume that outlives the pod, none has to be set.
    expect(JSON.stringify(pod({}))).not.toMatch(/runAsUser|runAsGroup|fsGroup/);
    expect(pod({ securityContext: null })["containers"]).not.toHaveProperty("0.securityContext");
  });

  test("a large number stays a whole one, as a user of OpenShift is", () => {
    const runAsUser = 1_000_680_000;
    const changes = { securityContext: { runAsUser }, store: { trial: { runAsUser } } };
    const { out } = runHelm(["template", "headgate", chartFolder], merge(required, merge(everything, changes)));
    expect(out.match(/runAs(User|Group): .*/g)).toEqual(Array(4).fill(expect.stringMatching(/: 1000680000$/)));
  });

  test("a second release beside the first shares no name and selects only its own pods", () => {
    const [first, second] = [template(everything, "one"), template(everything, "two")];
    const names = new Set(first.map(nameOf));
    expect(second.filter((manifest) => names.has(nameOf(manifest)))).toEqual([]);
    const deployment = second.find(({ kind, metadata }) => kind === "Deployment" && metadata.name === "two");
    expect(at(deployment, "spec.template.spec.volumes") as Mapping[]).toContainEqual({
      name: "headgate",
      configMap: { name: "two" },
    });
    for (const name of ["two", "two-admin"]) {
      const selector = at(service(second, name), "spec.selector") as Mapping;
      expect(selector).toEqual(at(deployment, "spec.selector.matchLabels"));
      expect(selector["app.kubernetes.io/instance"]).toBe("two");
    }
  });

  test.each([
    ["my.app", {}, "my-app"],
    // Of YAML 1.1 a boolean and a number, unless they are quoted.
    ["on", { secretName: "off", ingress: { className: "no" }, serviceAccount: { name: "y" } }, "on"],
    ["1e3", { fullnameOverride: "null" }, "null"],
    ["2nd", {}, "headgate-2nd"],
    ["finance-limits", { nameOverride: "gateway" }, "finance-limits-gateway"],
    ["finance-limits", { fullnameOverride: "limits", nameOverride: "ignored" }, "limits"],
    [`x${"a".repeat(51)}.`.replace(/\.$/, "b"), {}, `x${"a".repeat(51)}`],
  ])("the release %s with %o makes objects named %s, which each kind accepts", (release, names, expected) => {
    const manifests = template(merge(everything, names), release);
    expect(manifests.flatMap(manifestFlaws)).toEqual([]);
    expect(referenceFlaws(manifests)).toEqual([]);
    expect(service(manifests, expected)).toBeDefined();
    // The label by which alerts and dashboards know the gateway stays.
    expect(at(service(manifests, expected), "spec.selector")).toMatchObject({ "app.kubernetes.io/name": "headgate" });
  });

  test("without the upstream or the trusted network nothing is rendered, and the reason is said", () => {
    const tell = (changes: Mapping) => runHelm(["template", "headgate", chartFolder], changes).err;
    const upstream = { url: "http://api.test" };
    expect(tell({})).toContain("config.upstream.url is not set");
    const asked = tell({ config: { upstream } });
    expect(asked).toContain("config.clientAddress.trustedProxies is not set");
    const block = /## Which network.*?^```sh\n(.*?)^```/ms.exec(readPage("clusters.md"))?.[1] ?? "";
    const commands = block.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    expect(commands).toHaveLength(7);
    for (const word of commands) expect(asked).toContain(word);
    const clientAddress = { trustedProxies: [] };
    expect(tell({ config: { upstream, clientAddress } })).toBe("");
    expect(tell({ config: { upstream, clientAddress, extAuth: { http: { enabled: true } } } })).toContain(
      "trustedCallers",
    );
    expect(tell({ configText: "upstream: { url: http://api.test }" })).toContain("trustedProxies is not set");
    expect(tell({ configText: "a: [" })).toContain("configText is not YAML");
    expect(tell({ existingConfigMap: { name: "x" } })).toBe("");
    expect(tell(merge(required, { store: { trial: { enabled: true } } }))).toContain("store.passwordSecret.name");
  });

  test("the ports of the container, the Services and the policies are those of the configuration", () => {
    const text =
      "listen: { port: 8000 }\nadmin: { port: 9000, tls: { cert: a, key: b } }\nextAuth: { grpc: { enabled: true, port: 9001 }, trustedCallers: [10.0.0.0/8] }\n";
    const configText = `upstream: { url: http://a.test }\nclientAddress: { trustedProxies: [] }\n${text}`;
    const manifests = template({ configText, serviceMonitor: { enabled: true } });
    const { ports, livenessProbe } = container({ configText });
    expect(ports).toEqual([
      { name: "gateway", containerPort: 8000 },
      { name: "gateway-admin", containerPort: 9000 },
      { name: "gateway-grpc", containerPort: 9001 },
    ]);
    expect(at(livenessProbe, "httpGet.scheme")).toBe("HTTPS");
    expect(at(only(manifests, "ServiceMonitor"), "spec.endpoints.0.scheme")).toBe("https");
    const rules = at(only(manifests, "NetworkPolicy"), "spec.ingress") as Mapping[];
    expect(rules.map((rule) => (rule["ports"] as Mapping[]).map(({ port }) => port))).toEqual([[8000, 9001], [9000]]);
    expect(at(service(manifests), "spec.ports")).toMatchObject([
      { targetPort: "gateway" },
      { targetPort: "gateway-grpc" },
    ]);
  });

  test("words that YAML 1.1 has turned into booleans reach the gateway as what they were", () => {
    const written = `
config:
  upstream: { url: http://a.test }
  clientAddress: { trustedProxies: [] }
  auth: { mode: off, rules: [{ paths: [/v1/login], mode: off }] }
  log: { subject: off }
  enforcement: on
`;
    const { out } = runHelm(["template", "headgate", chartFolder], written);
    const manifests = parseManifests(out);
    const data = at(only(manifests, "ConfigMap"), "data") as Mapping;
    expect(parse(String(data["headgate.yaml"]))).toMatchObject({ auth: { mode: false }, enforcement: true });
    expect(configurationFlaws(manifests)).toEqual([]);
  });

  test("a configuration as text reaches the gateway as it was written", () => {
    const configText =
      "# YAML 1.1 would read off as false and 0100 as 64.\nupstream: { url: http://a.test }\nclientAddress: { trustedProxies: [] }\nauth: { mode: off }\nx: 0100\n";
    const data = at(only(template({ configText }), "ConfigMap"), "data") as Mapping;
    expect(data["headgate.yaml"]).toBe(configText);
  });

  test.each([
    ["clusters.md", 7],
    ["kubernetes.md", 2],
  ])("each example of values in %s is accepted by the chart, by Kubernetes and by the gateway", (page, count) => {
    const blocks = [...readPage(page).matchAll(/^```yaml\n(.*?)^```/gms)].map(
      ([, text]) => parse(text ?? "") as Mapping,
    );
    const examples = blocks.filter((one) => Object.keys(one).every((key) => key in values || key === "global"));
    expect(examples).toHaveLength(count);
    for (const example of examples) {
      const manifests = template(example);
      const own = manifests.filter(({ kind }) => kind !== "BackendConfig");
      expect([example, own.flatMap(manifestFlaws), referenceFlaws(own)]).toEqual([example, [], []]);
      expect([example, configurationFlaws(manifests)]).toEqual([example, []]);
    }
  });

  test("each command of the pages that installs the chart is one that Helm takes", () => {
    const pages = ["docs/kubernetes.md", "deploy/helm/headgate/README.md"];
    const commands = pages.flatMap(
      (page) => readFromRoot(page).match(/^helm install headgate .*\n(?: {2}--.*\n)*/gm) ?? [],
    );
    expect(commands).toHaveLength(3);
    for (const command of commands) {
      const rendering = command.replace("helm install", `'${helm}' template`);
      const { status, stderr } = spawnSync("bash", ["-c", rendering], { cwd: root, encoding: "utf8" });
      expect([command, status, stderr]).toEqual([command, 0, ""]);
    }
  });

  test("an autoscaler has the replicas to itself, and a gateway without a store gets a warning, not a failure", () => {
    const enabled = { autoscaling: { enabled: true } };
    expect(only(template(enabled), "Deployment").spec).not.toHaveProperty("replicas");
    expect(only(template({ replicas: null }), "Deployment").spec).not.toHaveProperty("replicas");
    expect(at(only(template(enabled), "HorizontalPodAutoscaler"), "spec.scaleTargetRef.name")).toBe("headgate");
    const notes = (changes: Mapping) =>
      runHelm(["install", "headgate", chartFolder, "--dry-run=client"], merge(required, changes)).out.split(
        "NOTES:",
      )[1];
    expect(notes(enabled)).toContain("several gateways without a store");
    expect(notes({ replicas: 2 })).toContain("several gateways without a store");
    expect(notes({})).not.toContain("several gateways");
    expect(notes({ ...enabled, config: { counters: { store: "redis" } } })).not.toContain("several gateways");
    expect(notes({})).toContain("0100");
  });

  test("a changed configuration replaces the pods, unless it is reloaded in place", () => {
    const annotations = (changes: Mapping) => only(template(changes), "Deployment").spec;
    const checksum = (changes: Mapping) =>
      (at(annotations(changes), "template.metadata") as { annotations?: Mapping }).annotations?.["checksum/config"];
    const policies = [{ name: "per-ip", limit: 1_000_000, window: "60s" }];
    const changed = { config: { policies } };
    expect(checksum(changed)).toMatch(/^[0-9a-f]{64}$/);
    expect(checksum(changed)).not.toBe(checksum({}));
    expect(checksum({ reloadInPlace: true })).toBeUndefined();
    const data = at(only(template(changed), "ConfigMap"), "data") as Mapping;
    expect(parse(String(data["headgate.yaml"]))).toMatchObject({ policies, ...required.config });
  });

  test("the memory of the container follows that of the counters, unless it is given", () => {
    const memoryOf = (changes: Mapping) => {
      const { resources } = container(changes);
      return [at(resources, "requests.memory"), at(resources, "limits.memory")];
    };
    const config = { counters: { memory: "256MiB" } };
    expect(memoryOf({})).toEqual(["128Mi", "512Mi"]);
    expect(memoryOf({ config })).toEqual(["352Mi", "736Mi"]);
    const configText =
      "upstream: { url: http://a.test }\nclientAddress: { trustedProxies: [] }\ncounters: { memory: 1GiB }\n";
    expect(memoryOf({ configText })).toEqual(["1120Mi", "1504Mi"]);
    expect(() => template({ configText: configText.replace("1GiB", "1GB") })).toThrow("write it in MiB or GiB");
    expect(memoryOf({ config, resources: { requests: { memory: "1Gi" }, limits: { memory: "2Gi" } } })).toEqual([
      "1Gi",
      "2Gi",
    ]);
  });

  test("with persistence, a StatefulSet has the same pod, with a volume that outlives it", () => {
    const manifests = template({ persistence: { enabled: true } });
    const stateful = only(manifests, "StatefulSet");
    expect(manifests.map(({ kind }) => kind)).not.toContain("Deployment");
    const { securityContext, volumes, ...rest } = at(stateful, "spec.template.spec") as Mapping;
    expect(securityContext).toEqual({ fsGroup: 1000, fsGroupChangePolicy: "OnRootMismatch" });
    const mounted = [...(volumes as Mapping[]), { name: "counters", emptyDir: {} }];
    expect({ ...rest, volumes: mounted }).toEqual(pod({}));
    expect(at(service(manifests, `${at(stateful, "spec.serviceName")}`), "spec.clusterIP")).toBe("None");
  });

  test("each image is the one that is asked for", () => {
    const image = { repository: "registry.test/headgate", tag: "1.2.3" };
    const digest = `sha256:${"0123456789abcdef".repeat(4)}`;
    expect(container({})["image"]).toBe(`headgate:${packageJson.version}`);
    expect(container({ image })["image"]).toBe("registry.test/headgate:1.2.3");
    expect(container({ image: { ...image, digest } })["image"]).toBe(`registry.test/headgate@${digest}`);
  });

  test("the alerts reach Prometheus as they are, but for those that are left out", () => {
    const groups = (changes: Mapping) =>
      at(only(template({ prometheusRule: { enabled: true, ...changes } }), "PrometheusRule"), "spec.groups");
    const files = ["recording", "alerts"].map((name) => parse(readChartFile(`files/${name}.rules.yaml`)).groups);
    expect(groups({})).toEqual(files.flat());
    expect(JSON.stringify(groups({ without: ["HeadgateMissing"] }))).not.toContain("HeadgateMissing");
  });

  test.each([
    { imge: {} },
    { image: { repositry: "x" } },
    { image: { digest: "latest" } },
    { networkPolicy: { enable: true } },
    { networkPolicy: { trafficFrom: { team: "edge" } } },
    { serviceMonitor: { enabled: "yes" } },
    { terminationGracePeriodSeconds: "45" },
    { persistence: { enabled: "yes" } },
    { config: { counters: { memory: "1GB" } } },
    { config: { counters: { store: "valkey" } } },
    { store: { passwordSecret: { nam: "x" } } },
    { replicas: "2" },
    { podLabels: { team: true } },
    { fullnameOverride: "a.b" },
  ])("%o is refused", (changes) => {
    const { status, err } = runHelm(["template", "headgate", chartFolder], merge(required, changes));
    expect([status, err]).toEqual([1, expect.stringContaining("schema")]);
  });

  test("a chart that has this one as a dependency may switch it by a condition", () => {
    expect(template({ enabled: true, global: { anything: "of others" } })).toEqual(template());
  });

  test("the chart is of this version", () => {
    expect([chart["version"], chart["appVersion"]]).toEqual([packageJson.version, packageJson.version]);
  });
});
