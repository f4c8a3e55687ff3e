// The chart of deploy/helm: with its values as they are it makes what the companion overlay makes, and each value does
// what it says. Helm itself cannot be had everywhere; what the chart uses of its language is in go-template.ts.
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import packageJson from "../../package.json" with { type: "json" };
import { chart, expectSameObjects, merge, nameOf, readChartFile, template, values } from "./chart.ts";
import { renderTemplate } from "./go-template.ts";
import { manifestFlaws } from "./kubernetes-shapes.ts";
import { at, cannotRender, type Manifest, only, render } from "./manifests.ts";
import { type Mapping, object, oneOf, text } from "./shape.ts";

describe.skipIf(cannotRender)("beside the companion overlay (needs kubectl or kustomize)", () => {
  test("the same objects with the same contents, but for what only Helm does", () => {
    expectSameObjects(template({ serviceMonitor: { enabled: true } }), render("companion"));
  });
});

test("what is rendered has known fields only, with every value in use", () => {
  const all = { serviceMonitor: { enabled: true }, secretName: "headgate-files", image: { tag: "1.2.3" } };
  const persistent = {
    persistence: { enabled: true, storageClassName: "fast" },
    resources: { limits: { cpu: "1500m" } },
  };
  expect(template().flatMap(manifestFlaws)).toEqual([]);
  expect(template(all).flatMap(manifestFlaws)).toEqual([]);
  expect(template({ ...all, ...persistent }).flatMap(manifestFlaws)).toEqual([]);
});

test("a second release beside the first shares no name and selects only its own pods", () => {
  const [first, second] = [template({}, "one"), template({}, "two")];
  const names = new Set(first.map(nameOf));
  expect(second.filter((manifest) => names.has(nameOf(manifest)))).toEqual([]);
  expect(at(only(second, "Deployment"), "spec.template.spec.volumes.0.configMap.name")).toBe("two");
  for (const service of second.filter(({ kind }) => kind === "Service")) {
    expect(at(service, "spec.selector")).toEqual(at(only(second, "Deployment"), "spec.selector.matchLabels"));
    expect((at(service, "spec.selector") as Mapping)["app.kubernetes.io/instance"]).toBe("two");
  }
});

test("each value does what it says", () => {
  const pod = (changes: Mapping) => at(only(template(changes), "Deployment"), "spec.template.spec") as Mapping;
  expect(at(pod({}), "containers.0.image")).toBe(`headgate:${packageJson.version}`);
  const image = { repository: "registry.test/headgate", tag: "1.2.3", pullPolicy: "Always" };
  expect(at(pod({ image }), "containers.0")).toMatchObject({
    image: "registry.test/headgate:1.2.3",
    imagePullPolicy: "Always",
  });
  expect(pod({ terminationGracePeriodSeconds: 90 })["terminationGracePeriodSeconds"]).toBe(90);
  expect(at(pod({ resources: { limits: { memory: "1Gi" } } }), "containers.0.resources.limits.memory")).toBe("1Gi");
  const withSecret = pod({ secretName: "files" });
  expect(at(withSecret, "volumes.1")).toEqual({ name: "secret", secret: { secretName: "files" } });
  expect(at(withSecret, "containers.0.volumeMounts.1")).toMatchObject({
    name: "secret",
    mountPath: "/etc/headgate-secret",
  });
  const kinds = (changes: Mapping) => template(changes).map(({ kind }) => kind);
  expect(kinds({})).not.toContain("ServiceMonitor");
  expect(kinds({ networkPolicy: { enabled: false } })).not.toContain("NetworkPolicy");
  const monitor = only(template({ serviceMonitor: { enabled: true, interval: "5s" } }), "ServiceMonitor");
  // The name of the Service follows the release, this label does not.
  expect(at(monitor, "spec.jobLabel")).toBe("app.kubernetes.io/name");
  expect(at(monitor, "spec.endpoints.0.interval")).toBe("5s");
  const policy = only(template({ networkPolicy: { traffic: { team: "edge" } } }), "NetworkPolicy");
  expect(at(policy, "spec.ingress.0.from.0.namespaceSelector.matchLabels")).toMatchObject({ team: "edge" });
});

test("the memory of the container follows that of the counters, unless it is given", () => {
  const memoryOf = (changes: Mapping) => {
    const path = "spec.template.spec.containers.0.resources";
    const resources = at(only(template(changes), "Deployment"), path) as Mapping;
    return [at(resources, "requests.memory"), at(resources, "limits.memory")];
  };
  const config = { counters: { memory: "256MiB" } };
  expect(memoryOf({})).toEqual(["128Mi", "512Mi"]);
  expect(memoryOf({ config })).toEqual(["352Mi", "736Mi"]);
  expect(memoryOf({ config, resources: { requests: { memory: "1Gi" }, limits: { memory: "2Gi" } } })).toEqual([
    "1Gi",
    "2Gi",
  ]);
});

test("with persistence, a StatefulSet has the same pod, with a volume that outlives it", () => {
  const persistence = { enabled: true, size: "2Gi", storageClassName: "fast" };
  const secretName = "files";
  const manifests = template({ persistence, secretName });
  const set = only(manifests, "StatefulSet");
  expect(manifests.map(({ kind }) => kind)).not.toContain("Deployment");
  expect(at(set, "spec.volumeClaimTemplates")).toEqual([
    {
      metadata: { name: "counters" },
      spec: {
        accessModes: ["ReadWriteOnce"],
        storageClassName: "fast",
        resources: { requests: { storage: "2Gi" } },
      },
    },
  ]);
  const pods = [set, only(template({ secretName }), "Deployment")].map((each) => at(each, "spec.template") as Mapping);
  const [lasting = {}, ordinary = {}] = pods;
  const { securityContext, volumes, ...rest } = at(lasting, "spec") as Mapping;
  expect(securityContext).toEqual({ fsGroup: 1000, fsGroupChangePolicy: "OnRootMismatch" });
  const others = at(ordinary, "spec") as Mapping;
  expect({ ...rest, volumes: [...(volumes as Mapping[]), { name: "counters", emptyDir: {} }] }).toEqual(others);
  const governing = manifests.find(
    ({ kind, metadata: { name } }) => kind === "Service" && name === at(set, "spec.serviceName"),
  );
  expect(at(governing, "spec.clusterIP")).toBe("None");
});

test("a changed configuration is mounted, and rolls the pod", () => {
  const changed = template({ config: { policies: [{ name: "per-ip", limit: 7, window: "60s" }] } });
  const written = parse(String((only(changed, "ConfigMap")["data"] as Mapping)["headgate.yaml"]));
  expect(written).toMatchObject({ policies: [{ limit: 7 }], upstream: { url: "http://finance-backend:3000" } });
  const checksum = (manifests: Manifest[]) =>
    (at(only(manifests, "Deployment"), "spec.template.metadata.annotations") as Mapping)["checksum/config"];
  expect(checksum(changed)).toMatch(/^[0-9a-f]{64}$/);
  expect(checksum(changed)).not.toBe(checksum(template()));
});

test("the schema takes the values as they are, and refuses one that is misspelled or of another type", () => {
  const schema = z.fromJSONSchema(JSON.parse(readChartFile("values.schema.json")));
  expect(schema.safeParse(values).success).toBe(true);
  const wrong: readonly Mapping[] = [
    { imge: {} },
    { image: { repositry: "x" } },
    { networkPolicy: { enable: true } },
    { serviceMonitor: { enabled: "yes" } },
    { terminationGracePeriodSeconds: "45" },
    { secretName: null },
    { persistence: { enabled: "yes" } },
    { resources: { limits: { memry: "1Gi" } } },
    { config: { counters: { memory: "1GiB" } } },
    { config: { counters: { store: "valkey" } } },
    { store: { passwordSecret: { nam: "x" } } },
    { replicas: "2" },
  ];
  for (const changes of wrong)
    expect(schema.safeParse(merge(values, changes)).success, JSON.stringify(changes)).toBe(false);
});

test("the chart is of this version, and says nothing that Helm does not know", () => {
  const word = text();
  const shape = object({
    apiVersion: oneOf("v2"),
    name: word,
    description: word,
    type: oneOf("application"),
    version: word,
    appVersion: word,
    kubeVersion: word,
  });
  expect(shape(chart, "Chart.yaml")).toEqual([]);
  expect([chart["version"], chart["appVersion"]]).toEqual([packageJson.version, packageJson.version]);
});

test("the templates are read as Helm reads them: what is unknown is refused", () => {
  const data = { Values: { a: "", b: { c: "x" } } };
  expect(
    renderTemplate("x\n  {{- if .Values.a }}\n  no\n  {{- end }}\n{{ .Values.a | default .Values.b.c }}", data),
  ).toBe("x\nx");
  const size = { Values: { a: "32MiB", b: "" } };
  expect(renderTemplate('{{ .Values.a | trimSuffix "MiB" | add 96 }}Mi', size)).toBe("128Mi");
  const branches = "{{ if .Values.b }}x{{ else }}y{{ end }}{{ if not .Values.b }}z{{ end }}";
  expect(renderTemplate(branches, size)).toBe("yz");
  expect(renderTemplate('{{ if eq .Values.a "32MiB" }}x{{ end }}{{ if eq .Values.a "b" }}y{{ end }}', size)).toBe("x");
  expect(renderTemplate("a:\n  {{- toYaml .Values.b | nindent 2 }}\nd", data)).toBe("a:\n  c: x\nd");
  for (const unknown of [
    "{{ .Values.z }}",
    "{{ include .Values.a }}",
    "{{ .Values.a | quote }}",
    "{{ end }}",
    "{{ if .Values.a }}",
    "{{ else }}",
    "{{ .Values.b.c | add 1 }}",
  ]) {
    expect(() => renderTemplate(unknown, data), unknown).toThrow();
  }
});
