// deploy/compose.replicas.yaml: two gateways with one configuration, whose store only they can reach.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import packageJson from "../../package.json" with { type: "json" };
import { loadSettings, packagedConfigFile } from "../../src/config/load.ts";
import { composeShape, type Service } from "./compose-shape.ts";
import { at, readManifests } from "./manifests.ts";
import type { Mapping } from "./shape.ts";

const file = new URL("../../deploy/compose.replicas.yaml", import.meta.url);
const compose: Mapping = parse(readFileSync(file, "utf8"), { merge: true });
const services = compose["services"] as Readonly<Record<"backend" | "store" | "first" | "second", Service>>;
const { store, first, second } = services;

test("has known fields only, and no container is left with its defaults", () => {
  expect(composeShape(compose, "compose")).toEqual([]);
  for (const service of Object.values(services)) {
    expect(service).toMatchObject({ read_only: true, cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] });
  }
});

test("both gateways are the same but for their port, of this version, and have the time to drain", () => {
  expect({ ...second, ports: first.ports }).toEqual(first);
  expect(second.ports).not.toEqual(first.ports);
  expect(first.image).toBe(`headgate:${packageJson.version}`);
  const { drain } = settingsOf(first);
  const graceMs = Number.parseInt(first.stop_grace_period ?? "", 10) * 1_000;
  expect(graceMs).toBeGreaterThanOrEqual(drain.delayMs + drain.timeoutMs + 5_000);
});

test("the gateways share the store, which nothing else reaches and which does not forget", () => {
  const { redis } = settingsOf(first).counters;
  expect(redis?.connection.servers).toEqual({ kind: "one", address: { host: "store", port: 6379 } });
  expect(store.networks).toEqual(["store"]);
  expect(compose["networks"]).toEqual({ store: { internal: true } });
  expect(store.ports).toBeUndefined();
  const others = Object.entries(services).filter(([, { networks = [] }]) => networks.includes("store"));
  expect(others.map(([name]) => name)).toEqual(["store", "first", "second"]);
  expect(store.command?.slice(-2)).toEqual(["--maxmemory-policy", "noeviction"]);
  for (const service of ["backend", "store"] as const) expect(services[service].healthcheck).toBeDefined();
  expect(first.depends_on).toEqual({
    backend: { condition: "service_healthy" },
    store: { condition: "service_healthy" },
  });
});

test("the store is the one of the manifests", () => {
  const [deployment] = readManifests("trial-store/deployment.yaml");
  expect(store.image).toBe(at(deployment, "spec.template.spec.containers.0.image"));
});

function settingsOf({ environment = {} }: Service) {
  const loaded = loadSettings({ file: packagedConfigFile, env: environment, cwd: ".", overrides: [] });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
  return loaded.settings;
}
