// Gateways that share their counters: the overlay `replicas`, the store of a trial, and the same from the chart. What is
// held: the gateways find the store, nobody else does, and the gateway's own loader takes what they are given.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { loadSettings } from "../../src/config/load.ts";
import type { Settings } from "../../src/core/settings.ts";
import { expectSameObjects, template } from "./chart.ts";
import { cannotRender } from "./kubernetes-tools.ts";
import { manifestFlaws } from "./manifest-flaws.ts";
import { at, type Manifest, readManifests, render } from "./manifests.ts";
import type { Mapping } from "./shape.ts";

const passwordFile = "/etc/headgate-store-password/password";
const redis = { url: "redis://headgate-store:6379" };
const passwordSecret = { name: "headgate-store" };
const withTrial = {
  config: { counters: { store: "redis", redis } },
  store: { passwordSecret, trial: { enabled: true } },
};

/** The first of a kind whose name ends so. */
function find(manifests: readonly Manifest[], kind: string, ending: string): Manifest {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name.endsWith(ending));
  if (found === undefined) throw new Error(`no ${kind} …${ending}`);
  return found;
}

const podOf = (workload: Manifest) => at(workload, "spec.template.spec") as Mapping;
const gatewayOf = (manifests: readonly Manifest[]) => find(manifests, "Deployment", "headgate");

function configurationOf(manifests: readonly Manifest[]): string {
  const data = find(manifests, "ConfigMap", "")["data"] as Mapping;
  return String(data["headgate.yaml"]);
}

/** As the gateway reads its configuration in the pod. */
function settingsOf(manifests: readonly Manifest[]): Settings {
  const folder = mkdtempSync(join(tmpdir(), "headgate-shared-store-"));
  try {
    const file = join(folder, "headgate.yaml");
    writeFileSync(file, configurationOf(manifests));
    const variables = at(podOf(gatewayOf(manifests)), "containers.0.env") as { name: string; value: string }[];
    const env = Object.fromEntries(variables.map(({ name, value }) => [name, value]));
    const loaded = loadSettings({ file, env, cwd: ".", overrides: [] });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
    return loaded.settings;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const selects = (selector: unknown, labels: unknown): boolean =>
  Object.entries(selector as Mapping).every(([key, value]) => (labels as Mapping)[key] === value);

const sources: readonly { from: string; read: () => Manifest[] }[] = [
  { from: "overlay", read: () => [...render("replicas"), ...render("trial-store")] },
  { from: "chart", read: () => template(withTrial) },
];

describe.skipIf(cannotRender).each(sources)("the $from", ({ read }) => {
  test("leads two gateways to the store, which admits nobody else", () => {
    const manifests = read();
    expect(manifests.flatMap(manifestFlaws)).toEqual([]);
    const [gateway, store] = [gatewayOf(manifests), find(manifests, "Deployment", "-store")];
    expect([at(gateway, "spec.replicas"), at(store, "spec.replicas")]).toEqual([2, 1]);
    const service = find(manifests, "Service", "-store");
    const port = at(podOf(store), "containers.0.ports.0") as Mapping;
    expect(settingsOf(manifests).counters.redis?.connection).toMatchObject({
      servers: { kind: "one", address: { host: service.metadata.name, port: at(service, "spec.ports.0.port") } },
      passwordFile,
    });
    expect(at(service, "spec.ports.0.targetPort")).toBe(port["name"]);
    const labels = (workload: Manifest) => at(workload, "spec.template.metadata.labels");
    expect(selects(at(service, "spec.selector"), labels(store))).toBe(true);
    expect(selects(at(service, "spec.selector"), labels(gateway))).toBe(false);
    const policy = find(manifests, "NetworkPolicy", "-store");
    expect(selects(at(policy, "spec.podSelector.matchLabels"), labels(store))).toBe(true);
    const [rule, ...others] = at(policy, "spec.ingress") as Mapping[];
    expect(others).toEqual([]);
    expect(rule?.["ports"]).toEqual([{ port: port["containerPort"], protocol: "TCP" }]);
    expect(selects(at(rule, "from.0.podSelector.matchLabels"), labels(gateway))).toBe(true);
    expect(selects(at(rule, "from.0.podSelector.matchLabels"), labels(store))).toBe(false);
    // A policy of the gateways that restricted what they send would have to admit the store.
    const own = find(manifests, "NetworkPolicy", "headgate");
    expect(at(own, "spec.policyTypes")).toEqual(["Ingress"]);
  });

  test("spreads the gateways over nodes and zones, and evicts one at a time", () => {
    const manifests = read();
    const gateway = gatewayOf(manifests);
    const constraints = at(podOf(gateway), "topologySpreadConstraints") as Mapping[];
    expect(constraints.map((one) => one["topologyKey"])).toEqual([
      "kubernetes.io/hostname",
      "topology.kubernetes.io/zone",
    ]);
    const labels = at(gateway, "spec.template.metadata.labels");
    for (const one of constraints) expect(selects(at(one, "labelSelector.matchLabels"), labels)).toBe(true);
    expect(at(find(manifests, "PodDisruptionBudget", "headgate"), "spec.maxUnavailable")).toBe(1);
  });
});

test.skipIf(cannotRender)("the chart makes what the overlay and the trial's store make", () => {
  const config = {
    counters: { store: "redis", redis: { ...redis, passwordFile, onFailure: "local" } },
    extAuth: { http: { enabled: true }, trustedCallers: ["10.244.0.0/16"] },
  };
  const [ofChart, ofOverlay] = [template({ ...withTrial, config }), [...render("replicas"), ...render("trial-store")]];
  expectSameObjects(ofChart, ofOverlay);
  expect(settingsOf(ofChart)).toEqual(settingsOf(ofOverlay));
});

test.skipIf(cannotRender)("the overlay's configuration is the companion's, but for the counters", () => {
  const [ours, companions] = ["replicas", "companion"].map((overlay) => {
    const { counters, ...rest } = parse(configurationOf(render(overlay)));
    return { rest, snapshot: counters.snapshot, memory: counters.memory };
  });
  expect(ours).toEqual(companions);
});

test("the trial's store keeps what it counts, and has its password in no argument", () => {
  const [store] = readManifests("trial-store/deployment.yaml");
  const script = at(store, "spec.template.spec.containers.0.command.2") as string;
  expect(script).toContain("--maxmemory-policy noeviction");
  const [, maxmemory] = /--maxmemory (\d+)mb/.exec(script) ?? [];
  const [, limit] =
    /^(\d+)Mi$/.exec(String(at(store, "spec.template.spec.containers.0.resources.limits.memory"))) ?? [];
  expect(Number(maxmemory) * 2).toBeLessThanOrEqual(Number(limit));
  const serverLine = script.slice(script.indexOf("exec "));
  expect(serverLine).not.toMatch(/\$|requirepass/);
  expect(script).toContain(passwordFile);
  expect(at(store, "spec.template.spec.containers.0.securityContext")).toMatchObject({
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
});

describe.skipIf(cannotRender)("a store that is there already, from the chart", () => {
  test("without a store there is one gateway, and no object of a store", () => {
    const manifests = template();
    expect(at(gatewayOf(manifests), "spec.replicas")).toBe(1);
    expect(manifests.filter(({ metadata }) => metadata.name.endsWith("-store"))).toEqual([]);
    expect(JSON.stringify(podOf(gatewayOf(manifests)))).not.toContain("headgate-store");
    expect(at(gatewayOf(template({ replicas: 3 })), "spec.replicas")).toBe(3);
  });

  test("its password and its authority are mounted where the gateway reads them", () => {
    const manifests = template({
      config: { counters: { store: "redis", redis: { url: "rediss://redis.test:6380", username: "headgate" } } },
      store: { passwordSecret: { name: "redis-auth", key: "redis-password" }, caSecret: { name: "redis-ca" } },
    });
    expect(manifests.flatMap(manifestFlaws)).toEqual([]);
    expect(at(gatewayOf(manifests), "spec.replicas")).toBe(2);
    const pod = podOf(gatewayOf(manifests));
    const files = (at(pod, "containers.0.volumeMounts") as Mapping[]).map((mount) => {
      const volume = (pod["volumes"] as Mapping[]).find(({ name }) => name === mount["name"]);
      return [mount["mountPath"], (volume?.["secret"] as Mapping | undefined)?.["secretName"]];
    });
    expect(files).toContainEqual(["/etc/headgate-store-password", "redis-auth"]);
    expect(files).toContainEqual(["/etc/headgate-store-ca", "redis-ca"]);
    expect(settingsOf(manifests).counters.redis?.connection).toMatchObject({
      username: "headgate",
      passwordFile: "/etc/headgate-store-password/redis-password",
      tls: { caFile: "/etc/headgate-store-ca/ca.crt" },
    });
  });

  test("the values in the docs are taken", () => {
    const docs = readFileSync(new URL("../../docs/kubernetes.md", import.meta.url), "utf8");
    const example = /```yaml\n# values of the chart\n(.*?)```/s.exec(docs)?.[1] ?? "";
    expect(settingsOf(template(parse(example))).counters.redis?.connection).toMatchObject({
      servers: { kind: "sentinels", name: "mymaster", addresses: [{ port: 26_379 }] },
      passwordFile: "/etc/headgate-store-password/redis-password",
    });
  });

  test("Sentinel and Cluster are the gateway's own keys", () => {
    const sentinels = { name: "mymaster", addresses: ["sentinel.test"] };
    const kinds = [{ sentinels }, { cluster: ["redis-0.test", "redis-1.test"] }].map((place) => {
      const manifests = template({ config: { counters: { store: "redis", redis: place } } });
      return settingsOf(manifests).counters.redis?.connection.servers.kind;
    });
    expect(kinds).toEqual(["sentinels", "cluster"]);
  });
});

test("a password with quotes and backslashes is the store's as it is the gateway's", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-shared-store-"));
  try {
    const [store] = readManifests("trial-store/deployment.yaml");
    const script = at(store, "spec.template.spec.containers.0.command.2") as string;
    writeFileSync(join(folder, "password"), 'p"w\\d\n');
    const writes = script.slice(0, script.indexOf("exec ")).replace(passwordFile, `${folder}/password`);
    execFileSync("sh", ["-ec", writes.replace("/run/store", folder)]);
    expect(readFileSync(join(folder, "password.conf"), "utf8")).toBe('requirepass "p\\"w\\\\d"\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
