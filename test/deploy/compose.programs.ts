// deploy/compose.yaml: every field is one that Compose knows, every file that is mounted is there, and the gateway's
// variables are a configuration that it takes.
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parse } from "yaml";
import packageJson from "../../package.json" with { type: "json" };
import { parseArguments } from "../../src/commands/arguments.ts";
import { loadSettings, packagedConfigFile } from "../../src/config/load.ts";
import type { Settings } from "../../src/core/settings.ts";
import { composeShape, type Service } from "./compose-shape.ts";
import { at } from "./manifests.ts";
import type { Mapping } from "./shape.ts";

const file = fileURLToPath(new URL("../../deploy/compose.yaml", import.meta.url));
const compose: Mapping = parse(readFileSync(file, "utf8"));

const services = compose["services"] as Readonly<Record<string, Service>>;

function serviceOf(name: string): Service {
  const found = services[name];
  if (found === undefined) throw new Error(`no service ${name}`);
  return found;
}

/** Of deploy/. */
function read(path: string): Mapping {
  return parse(readFileSync(resolve(dirname(file), path), "utf8"));
}

function loadSettingsOf({ environment = {} }: Service): Settings {
  const loaded = loadSettings({ file: packagedConfigFile, env: environment, cwd: ".", overrides: [] });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
  return loaded.settings;
}

test("has known fields only, and a misspelled one is noticed", () => {
  expect(composeShape(compose, "compose")).toEqual([]);
  const headgate = { ...serviceOf("headgate"), stop_grace_periods: "30s" };
  expect(composeShape({ ...compose, services: { ...services, headgate } }, "compose")).toEqual([
    "compose.services.headgate.stop_grace_periods: unknown",
  ]);
});

test("what is mounted is in the repository, and what is depended on is a service", () => {
  const mounted = Object.values(services).flatMap(({ volumes = [] }) => volumes.map((one) => one.split(":")[0] ?? ""));
  const files = mounted.filter((path) => path.startsWith("./"));
  expect(files.filter((path) => !existsSync(resolve(dirname(file), path)))).toEqual([]);
  const named = Object.keys(compose["volumes"] as object);
  expect(mounted.filter((path) => !path.startsWith("./"))).toEqual(named);
  for (const { depends_on: needed = [] } of Object.values(services)) {
    const names = Array.isArray(needed) ? needed : Object.keys(needed);
    expect(names.filter((name) => services[name] === undefined)).toEqual([]);
  }
});

test("the gateway takes its variables, reaches the backend, can be scraped, and has the time to drain", () => {
  const { upstream, admin, drain } = loadSettingsOf(serviceOf("headgate"));
  const grace = serviceOf("headgate").stop_grace_period;
  const command = parseArguments([...(serviceOf("backend").command ?? [])]);
  if (!command.ok || command.invocation.command !== "finance-backend") throw new Error("no backend");
  expect(upstream.url).toBe(`http://backend:${command.invocation.args.port}`);
  expect([command.invocation.args.host, admin.host]).toEqual(["0.0.0.0", "0.0.0.0"]);
  expect(Number.parseInt(grace ?? "", 10) * 1_000).toBeGreaterThanOrEqual(drain.delayMs + drain.timeoutMs + 5_000);
});

const dockerfile = readFileSync(resolve(dirname(file), "../Dockerfile"), "utf8");

/** Those that the image makes for its user, and for any other user with group 0. */
const [, user = "", folders = ""] = /^RUN install -d -m 770 -o (\d+) -g 0 (.+)$/m.exec(dockerfile) ?? [];
const ownFolders = { user, folders: folders.split(" ") };

test("the snapshot of the counters is in a volume that the image's user can write to", () => {
  const { snapshot } = loadSettingsOf(serviceOf("headgate")).counters;
  const folder = dirname(snapshot?.path ?? "");
  expect(serviceOf("headgate").volumes).toContain(`counters:${folder}`);
  // A new volume is owned as the folder of the image is.
  const [, user] = /^USER (\d+):\d+$/m.exec(dockerfile.slice(dockerfile.lastIndexOf("\nFROM "))) ?? [];
  expect(ownFolders).toEqual({ user, folders: expect.arrayContaining([folder]) });
});

test("the image names a private folder of its own for the socket of the admin API, which can be written to", () => {
  const [, path = ""] = /^ENV HEADGATE_ADMIN_SOCKET=(.*)$/m.exec(dockerfile) ?? [];
  const folder = dirname(path);
  expect(ownFolders.folders).toContain(folder);
  expect(dockerfile).toContain(`\nVOLUME ${folder}\n`);
  expect(loadSettingsOf({ ...serviceOf("headgate"), environment: { HEADGATE_ADMIN_SOCKET: path } }).admin.socket).toBe(
    path,
  );
});

test("Prometheus scrapes the gateway, Grafana asks that Prometheus and finds the dashboard", () => {
  const prometheus = read("prometheus/prometheus.yaml");
  const { admin } = loadSettingsOf(serviceOf("headgate"));
  expect(at(prometheus, "scrape_configs.0.static_configs.0.targets")).toEqual([`headgate:${admin.port}`]);
  const mounts = (name: string) => serviceOf(name).volumes?.map((one) => one.split(":")) ?? [];
  const [folder, place] = mounts("prometheus")[0] ?? [];
  expect(serviceOf("prometheus").command).toContain(`--config.file=${place}/prometheus.yaml`);
  for (const rules of prometheus["rule_files"] as string[]) {
    expect(existsSync(resolve(dirname(file), `${folder}/${rules}`)), rules).toBe(true);
  }
  const source = read("grafana/provisioning/datasources/prometheus.yaml");
  expect(at(source, "datasources.0.url")).toBe("http://prometheus:9090");
  const provider = read("grafana/provisioning/dashboards/headgate.yaml");
  const dashboard = `${at(provider, "providers.0.options.path")}/headgate.json`;
  expect(mounts("grafana").map(([, path]) => path)).toEqual(["/etc/grafana/provisioning", dashboard]);
  expect(serviceOf("grafana").environment).toMatchObject({ GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH: dashboard });
});

test("the image is of this version", () => {
  expect([serviceOf("backend").image, serviceOf("headgate").image]).toEqual([
    `headgate:${packageJson.version}`,
    `headgate:${packageJson.version}`,
  ]);
});
