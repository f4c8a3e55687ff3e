// The gateway watches its configuration file and all files that it names: a change of any of them is one reload.
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { settingsSource } from "../../src/commands/load-config.ts";
import type { SettingsSource } from "../../src/config/load.ts";
import { digestOf } from "../auth/digest.ts";
import { testIo } from "../commands/test-io.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway, type TestGateway, testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { threadCounts } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { deadUrl } from "../support/unavailable.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

interface Stage {
  readonly gateway: TestGateway;
  readonly folder: string;
  /** Replaces the configuration file; the rest of it is what a test gateway needs. */
  write(yaml: string): void;
  statusOf(target: string): Promise<number>;
  /** Reloads so far, by result. */
  reloads(): Promise<{ applied: number; unchanged: number; failed: number }>;
}

/** `meanwhile`: what the configuration file is when the gateway starts, if it has changed since it was loaded. */
async function stage(yaml = "", meanwhile: string | null = null, tokensFile: string | null = null): Promise<Stage> {
  const upstream = cleanup(await startUpstream());
  const folder = scratchFolder(cleanup);
  const path = join(folder, "headgate.yaml");
  const write = (text: string): void => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.new`, text === "" ? "" : `# A test\n${text}\n`);
    renameSync(`${path}.new`, path);
  };
  write(yaml === "" ? "reload: { watch: true }" : yaml);
  const overrides = [
    ["upstream.url", upstream.url],
    ["listen.host", "127.0.0.1"],
    ...["listen.port", "admin.port"].map((key) => [key, "0"]),
    ["drain.timeout", "1ms"],
    ...(tokensFile === null
      ? []
      : ["auth.mode=tokens", `auth.tokensFile=${tokensFile}`].map((pair) => pair.split("="))),
  ].map(([key = "", text = ""]) => ({ path: key.split("."), text, at: { kind: "default" } as const }));
  const source: SettingsSource = settingsSource({ file: path, overrides }, path, testIo());
  const loaded = source.load();
  if (!loaded.ok) throw new Error(loaded.errors.join("\n"));
  if (meanwhile !== null) write(meanwhile);
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides: loaded.settings, source }));
  const client = cleanup(new RawConnection(gateway.traffic.port));
  const count = (result: string) => metric(gateway, `headgate_config_reloads_total{result="${result}"}`);
  return {
    gateway,
    folder,
    write,
    async statusOf(target) {
      return (await client.ask(request(target))).status;
    },
    reloads: async () => ({
      applied: await count("applied"),
      unchanged: await count("unchanged"),
      failed: await count("failed"),
    }),
  };
}

const logged = ({ logLines }: TestGateway, message: string) => logLines.filter(({ msg }) => msg === message);

test("a changed file is reloaded, and the log says by what and which keys", async () => {
  const { gateway, write, statusOf, reloads } = await stage();
  expect(await statusOf("/v2/x")).toBe(200);
  const loadedAt = await metric(gateway, "headgate_config_loaded_timestamp_seconds");
  write("routes: [/v3/]\nlog: { level: info }");
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  expect(logged(gateway, "reloaded")).toMatchObject([{ by: "file", changed: ["routes"] }]);
  expect([await statusOf("/v2/x"), await statusOf("/v3/x")]).toEqual([404, 200]);
  expect(await reloads()).toEqual({ applied: 1, unchanged: 0, failed: 0 });
  expect(await metric(gateway, "headgate_config_loaded_timestamp_seconds")).toBeGreaterThan(loadedAt);
  expect(await metric(gateway, 'headgate_requests_total{route="/v3/",method="GET",status_class="2xx"}')).toBe(1);
  expect(await metric(gateway, 'headgate_requests_total{route="/v2/",method="GET",status_class="2xx"}')).toBe(1);
});

test("changes that all need a restart are not called no change", async () => {
  const { gateway, write } = await stage();
  write("counters: { memory: 64MiB }");
  const required = () => logged(gateway, "restart required: these keys keep their old values until then");
  await eventually("it is reported", () => required().length === 1);
  expect(required()).toMatchObject([{ level: "warn", keys: ["counters.memory"] }]);
  expect(logged(gateway, "reloaded, all changes need a restart")).toMatchObject([{ level: "info", by: "file" }]);
  expect(logged(gateway, "reloaded, nothing has changed")).toEqual([]);
});

const onePolicy = "policies: [{ name: a, limit: 5, window: 60s }]";

test.each([
  ["auth: { mode: presence }", "auth: { mode: off }", ["auth.mode"]],
  [`${onePolicy}\nroutes: [/v3/]`, "routes: [/v3/]", ["policies"]],
])("a reload from %j to %j gives up protection, which is a warning", async (from, to, loosened) => {
  const { gateway, write } = await stage(from);
  write(to);
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  expect(logged(gateway, "reloaded")).toMatchObject([{ level: "warn", loosened }]);
});

test.each([
  ["auth: { mode: off }", "auth: { mode: presence }"],
  [onePolicy, onePolicy.replace("name: a", "name: b")],
])("a reload from %j to %j is no warning", async (from, to) => {
  const { gateway, write } = await stage(from);
  write(to);
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  expect(logged(gateway, "reloaded")).toMatchObject([{ level: "info" }]);
});

test("a policy that is removed loses its counts, and the log says so", async () => {
  const { gateway, write, statusOf } = await stage(onePolicy.replace("limit: 5", "limit: 1"));
  expect([await statusOf("/v2/x"), await statusOf("/v2/x")]).toEqual([200, 429]);
  write(onePolicy.replace("name: a", "name: b"));
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  const values = ["policies.a: removed; what it has counted is forgotten"];
  expect(logged(gateway, "reloaded")).toMatchObject([{ values: expect.arrayContaining(values) }]);
  write(onePolicy.replace("limit: 5", "limit: 1"));
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 2);
  expect(await statusOf("/v2/x")).toBe(200);
});

test.skipIf(skipRedis)(`with a store, a policy that comes back still counts there${redisNeeded}`, async () => {
  const redis = cleanup(await startRedis());
  const store = `counters: { store: redis, redis: { url: "redis://127.0.0.1:${redis.port}", wait: 1s } }`;
  const a = `${store}\n${onePolicy.replace("limit: 5", "limit: 1")}`;
  const { gateway, write, statusOf } = await stage(a);
  await eventually("the store is up", async () => (await metric(gateway, 'headgate_store_state{state="up"}')) === 1);
  expect([await statusOf("/v2/x"), await statusOf("/v2/x")]).toEqual([200, 429]);
  write(a.replace("name: a", "name: b"));
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  const kept = /^policies\.a: removed; what it has counted stays in the store until it expires/;
  expect(logged(gateway, "reloaded")).toMatchObject([
    { values: expect.arrayContaining([expect.stringMatching(kept)]) },
  ]);
  write(a);
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 2);
  expect(await statusOf("/v2/x")).toBe(429);
  const begins = "policies start with what the store has of them: their name, kind or key is new";
  expect(logged(gateway, begins)).toMatchObject([{ policies: ["b"] }, { policies: ["a"] }]);
});

test("a file that has changed since it was loaded for the start is reloaded, whatever it has become", async () => {
  const { gateway, statusOf } = await stage("", "routes: [/v3/]");
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  expect(await statusOf("/v3/x")).toBe(200);
  const { reloads } = await stage("", "routes: [v3]");
  await eventually("it is reported", async () => (await reloads()).failed === 1);
});

test("a file that is unchanged since it was loaded for the start is no change", async () => {
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens");
  writeFileSync(tokensFile, `${digestOf("another")}\n`);
  const { reloads } = await stage("", null, tokensFile);
  // The files are reread together, so the configuration would be reported by the time that the tokens are in use.
  writeFileSync(tokensFile, `${digestOf("secret-token")}\n`);
  await eventually("the tokens are in use", async () => (await reloads()).applied === 1);
  expect(await reloads()).toEqual({ applied: 1, unchanged: 0, failed: 0 });
});

test("a file that is mounted by a link, as a ConfigMap is, is reloaded when the link is moved", async () => {
  const folder = scratchFolder(cleanup);
  const publish = (version: number, yaml: string): void => {
    mkdirSync(join(folder, `..${version}`));
    writeFileSync(join(folder, `..${version}`, "headgate.yaml"), yaml);
    symlinkSync(`..${version}`, join(folder, "..data_tmp"));
    renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
    rmSync(join(folder, `..${version - 1}`), { recursive: true, force: true });
  };
  publish(1, "routes: [/v2/]\n");
  symlinkSync(join("..data", "headgate.yaml"), join(folder, "headgate.yaml"));
  const upstream = cleanup(await startUpstream());
  const file = join(folder, "headgate.yaml");
  const source = settingsSource({ file, overrides: [] }, file, testIo());
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides: { routes: ["/v2/"] }, source });
  cleanup(() => gateway.close());
  for (const version of [2, 3]) {
    publish(version, `routes: [/v${version}/, /new-${version}/]\n`);
    const reloaded = () => logged(gateway, "reloaded").length === version - 1;
    await eventually("it is reloaded", reloaded);
  }
});

test.each([
  ["wrong", "routes: [v3]", /headgate\.yaml:2:10: routes\.0: found "v3"/],
  ["empty", "", /headgate\.yaml: found no key, expected a configuration; write \{\}/],
  ["only comments", "# routes: [/v3/]", /headgate\.yaml: found no key, expected a configuration; write \{\}/],
])("a file that is %s changes nothing, and is reported once, until it is right again", async (_, yaml, error) => {
  const { gateway, write, statusOf, reloads } = await stage();
  write(yaml);
  await eventually("it is reported", async () => (await reloads()).failed === 1);
  expect(logged(gateway, "configuration error")).toMatchObject([
    { level: "error", error: expect.stringMatching(error) },
  ]);
  expect(await statusOf("/v2/x")).toBe(200);
  expect(await metric(gateway, "headgate_config_current")).toBe(0);
  write("routes: [/v3/]");
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  expect(await statusOf("/v3/x")).toBe(200);
  expect(await reloads()).toEqual({ applied: 1, unchanged: 0, failed: 1 });
  expect(await metric(gateway, "headgate_config_current")).toBe(1);
});

test("a file that is gone changes nothing, until there is another", async () => {
  const { gateway, folder, write, reloads } = await stage();
  rmSync(join(folder, "headgate.yaml"));
  await eventually("it is reported", async () => (await reloads()).failed === 1);
  expect(logged(gateway, "configuration error")).toMatchObject([
    { error: expect.stringMatching(/headgate\.yaml: cannot be read: no such file$/) },
  ]);
  write("routes: [/v3/]");
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
});

test("the file and the tokens that it names, changed together, are one reload", async () => {
  const yaml = "auth: { mode: tokens, tokensFile: tokens }";
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens");
  writeFileSync(tokensFile, `${digestOf("another")}\n`);
  const { gateway, write, statusOf, reloads } = await stage(
    yaml.replace("tokensFile: tokens", `tokensFile: ${tokensFile}`),
  );
  expect(await statusOf("/v2/x")).toBe(401);
  writeFileSync(tokensFile, `${digestOf("secret-token")}\n`);
  write(`auth: { mode: tokens, tokensFile: ${tokensFile} }\nmaxBodyBytes: 1KiB`);
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length > 0);
  expect(logged(gateway, "reloaded")).toMatchObject([{ by: "file", changed: ["maxBodyBytes", "auth.tokensFile"] }]);
  expect(await statusOf("/v2/x")).toBe(200);
  expect(await reloads()).toEqual({ applied: 1, unchanged: 0, failed: 0 });
});

test("a file of tokens that comes later than the configuration that names it is waited for", async () => {
  const { gateway, folder, write, statusOf, reloads } = await stage();
  write("auth: { mode: tokens, tokensFile: tokens }\nroutes: [/v3/]");
  await eventually("it is reported", async () => (await reloads()).failed === 1);
  expect(logged(gateway, "configuration error")).toMatchObject([
    { error: expect.stringMatching(/headgate\.yaml:2:35: auth\.tokensFile: cannot be read: ENOENT$/) },
  ]);
  expect(await statusOf("/v2/x")).toBe(200);
  writeFileSync(join(folder, "tokens"), `${digestOf("secret-token")}\n`);
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  expect(await statusOf("/v3/x")).toBe(200);
  expect(await reloads()).toEqual({ applied: 1, unchanged: 0, failed: 1 });
});

test("new tokens are taken while the configuration is wrong, which it stays", async () => {
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens");
  writeFileSync(tokensFile, `${digestOf("another")}\n`);
  const { gateway, write, statusOf, reloads } = await stage(`auth: { mode: tokens, tokensFile: ${tokensFile} }`);
  write("routes: [v3]");
  await eventually("it is reported", async () => (await reloads()).failed === 1);
  writeFileSync(tokensFile, `${digestOf("secret-token")}\n`);
  await eventually("they are taken", () => logged(gateway, "reloaded").length === 1);
  expect(await statusOf("/v2/x")).toBe(200);
  expect(await metric(gateway, "headgate_config_current")).toBe(0);
  expect(logged(gateway, "configuration error")).toHaveLength(1);
});

test("a wrong file of tokens is no obstacle to a right configuration, and fails the reload", async () => {
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens");
  writeFileSync(tokensFile, `${digestOf("secret-token")}\n`);
  const auth = `auth: { mode: tokens, tokensFile: ${tokensFile} }`;
  const { gateway, write, statusOf, reloads } = await stage(auth);
  writeFileSync(tokensFile, "not a digest\n");
  await eventually("it is reported", async () => (await reloads()).failed === 1);
  expect(await metric(gateway, "headgate_tokens_file_current")).toBe(0);
  write(`${auth}\nroutes: [/v3/]`);
  await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
  expect(await statusOf("/v3/x")).toBe(200);
  // Whoever asks for a reload is told that a file is still wrong.
  const reports = (): number => gateway.logLines.filter(({ level }) => level === "error").length;
  const before = reports();
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: false, refused: ["auth.tokensFile"] });
  expect(reports()).toBe(before + 1);
  expect((await reloads()).unchanged).toBe(0);
});

test("a file that is saved during a trial goes on with the trial", async () => {
  const { gateway, write, statusOf } = await stage();
  write("reload: { trial: { confirmWithin: 1h } }\nroutes: [/v3/]");
  await eventually("it is on trial", () => gateway.trial.trial !== null);
  write("reload: { watch: true }\nroutes: [/v4/]");
  await eventually("the next one is in force", async () => (await statusOf("/v4/x")) === 200);
  expect(gateway.trial.trial).toMatchObject({ confirmWithinMs: 3_600_000 });
  await gateway.trial.takeBack();
  expect([await statusOf("/v2/x"), await statusOf("/v4/x")]).toEqual([200, 404]);
});

test("reload.watch: false leaves a changed file alone until a reload is asked for, but not the tokens", async () => {
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens");
  writeFileSync(tokensFile, `${digestOf("another")}\n`);
  const auth = `auth: { mode: tokens, tokensFile: ${tokensFile} }`;
  const { gateway, write, statusOf } = await stage(`reload: { watch: false }\n${auth}`);
  write(`${auth}\nroutes: [/v3/]`);
  writeFileSync(tokensFile, `${digestOf("secret-token")}\n`);
  // The configuration was changed first, so it would be reloaded first.
  await eventually("the tokens are in use", () => logged(gateway, "reloaded").length === 1);
  expect([await statusOf("/v2/x"), await statusOf("/v3/x")]).toEqual([200, 404]);
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: true, changed: ["routes", "reload.watch"] });
  expect(await statusOf("/v3/x")).toBe(200);
  write(`${auth}\nroutes: [/v4/]`);
  await eventually("it is watched now", () => logged(gateway, "reloaded").length === 3);
});

test("what needs a restart is in the log and in a metric, until the file says otherwise", async () => {
  const { gateway, write } = await stage();
  write("admin: { host: 127.0.0.2 }\nextAuth: { grpc: { enabled: true }, trustedCallers: [127.0.0.1] }");
  const required = () => metric(gateway, "headgate_config_restart_required");
  await eventually("a restart is required", async () => (await required()) === 2);
  expect(gateway.logLines.at(-1)).toMatchObject({
    level: "warn",
    keys: ["admin.host", "extAuth.grpc.enabled"],
    msg: "restart required: these keys keep their old values until then",
  });
  write("maxBodyBytes: 1KiB");
  await eventually("none is required", async () => (await required()) === 0);
});

test("a token that is revoked while the gateway drains is refused, and the configuration stays as it is", async () => {
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens");
  writeFileSync(tokensFile, `${digestOf("secret-token")}\n`);
  holdTimers(cleanup);
  const yaml = `auth: { mode: tokens, tokensFile: ${tokensFile} }\ndrain: { delay: 3s, timeout: 1ms }`;
  const { gateway, write, statusOf } = await stage(yaml);
  const drained = gateway.drain();
  write(`${yaml}\nroutes: [/v3/]`);
  writeFileSync(tokensFile, "# none\n");
  await eventually("it is refused", async () => (await metric(gateway, "headgate_tokens_listed")) === 0);
  expect(await statusOf("/v2/x")).toBe(401);
  vi.advanceTimersByTime(3_000);
  await drained;
  expect(logged(gateway, "reloaded")).toEqual([]);
});

describe("what a reload has changed", () => {
  const limitOf = (limit: number, more = ""): string => `policies: [{ name: a, limit: ${limit}, window: 60s${more} }]`;

  test("is logged with the value before and the one after, as `check --diff` prints them", async () => {
    const { gateway, write } = await stage(limitOf(100));
    write(`${limitOf(50, ", exempt: [10.0.0.0/8]")}\nlog: { access: false }\nlisten: { maxConnections: 1000 }`);
    await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
    write(limitOf(50, ", mode: shadow"));
    await eventually("it is reloaded again", () => logged(gateway, "reloaded").length === 2);
    expect(logged(gateway, "reloaded").map(({ values }) => values)).toEqual([
      [
        "listen.maxConnections: 10000 → 1000",
        "policies.a.limit: 100 → 50",
        "policies.a.exempt: [] → [10.0.0.0/8]",
        "log.access: true → false",
      ],
      [
        "listen.maxConnections: 1000 → 10000",
        "policies.a.mode: enforce → shadow",
        "policies.a.exempt: [10.0.0.0/8] → []",
        "log.access: false → true",
      ],
    ]);
  });

  test("leaves out what needs a restart, also when the file no longer wants it", async () => {
    const { gateway, write } = await stage(limitOf(100));
    write(`${limitOf(50)}\nadmin: { host: 127.0.0.2 }`);
    await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
    write(limitOf(40));
    await eventually("it is reloaded again", () => logged(gateway, "reloaded").length === 2);
    expect(logged(gateway, "reloaded").map(({ values }) => values)).toEqual([
      ["policies.a.limit: 100 → 50"],
      ["policies.a.limit: 50 → 40"],
    ]);
  });

  test("shows no secret, and of long values the part that differs", async () => {
    const keyed = (value: string, exempt: readonly string[]): string =>
      limitOf(9, `, key: ["header:x"], overrides: [{ header: ${value}, limit: 5 }], exempt: [${exempt.join()}]`);
    const networks = Array.from({ length: 500 }, (_, i) => `10.${i >> 8}.${i & 255}.0/24`);
    const { gateway, write } = await stage(keyed("s3cret-one", networks));
    write(keyed("s3cret-two", networks.with(250, "192.0.2.0/24")));
    await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
    expect(JSON.stringify(gateway.logLines)).not.toContain("s3cret");
    const [exempt = "", overrides] = logged(gateway, "reloaded").flatMap(({ values }) => values as string[]);
    expect(overrides).toBe('policies.a.overrides: [{header: "***", limit: 5}] (a value that is not shown has changed)');
    expect(exempt).toMatch(/^policies\.a\.exempt: ….*10\.0\.250\.0\/24.*… → ….*192\.0\.2\.0\/24.*…$/);
    expect(exempt.length).toBeLessThan(500);
  });

  test("is known by its keys alone where a program passes the settings", async () => {
    const { gateway } = await stage(limitOf(100));
    await gateway.reload(testSettings(deadUrl, { maxBodyBytes: 1 }));
    const changed = expect.arrayContaining(["maxBodyBytes"]);
    expect(logged(gateway, "reloaded")).toMatchObject([{ by: "call", changed }]);
    expect(logged(gateway, "reloaded")[0]).not.toHaveProperty("values");
  });
});

describe("an override whose token is not listed", () => {
  const acme = `${digestOf("secret-token")}  # acme\n`;
  const other = `${digestOf("another")}\n`;
  const told = ({ logLines }: TestGateway): unknown[] =>
    logLines.filter(({ msg }) => msg === "configuration warning").map(({ detail }) => detail);
  const ofAcme = (line: number): unknown =>
    expect.stringMatching(
      new RegExp(
        `headgate\\.yaml:${line}:\\d+: policies\\.1\\.overrides\\.0\\.subject: auth\\.tokensFile has no token of this name, so this override applies to nobody$`,
      ),
    );

  /** The configuration begins in the second line of its file. */
  const yamlWith = (file: string, name: string, more = ""): string =>
    [
      `auth: { mode: tokens, tokensFile: ${file} }`,
      "policies:",
      "  - { name: by-client, limit: 100, window: 60s }",
      `  - { name: a, limit: 9, window: 1s, key: [subject], overrides: [{ subject: ${name}, limit: 5 }] }`,
      more,
    ].join("\n");

  const stageTokens = async (tokens: string, name: string, workers = 1) => {
    const folder = scratchFolder(cleanup);
    const file = join(folder, "tokens");
    writeFileSync(file, tokens);
    return { file, ...(await stage(yamlWith(file, name, `workers: ${workers}`))) };
  };

  test.each(threadCounts)(
    "is told once when its line goes, and again when it has come back and goes (%i workers)",
    async (workers) => {
      const { file, gateway, write } = await stageTokens(acme, "acme", workers);
      const reloaded = (count: number) =>
        eventually("it is reloaded", () => logged(gateway, "reloaded").length === count);
      expect(told(gateway)).toEqual([]);
      writeFileSync(file, other);
      await reloaded(1);
      expect(told(gateway)).toEqual([ofAcme(5)]);
      write(yamlWith(file, "acme", `workers: ${workers}\nmaxBodyBytes: 1KiB`));
      await reloaded(2);
      writeFileSync(file, `# another comment\n${other}`);
      await reloaded(3);
      expect(told(gateway)).toHaveLength(1);
      writeFileSync(file, acme);
      await reloaded(4);
      expect(told(gateway)).toHaveLength(1);
      writeFileSync(file, other);
      await reloaded(5);
      expect(told(gateway)).toEqual([ofAcme(5), ofAcme(5)]);
    },
  );

  test("is told like a scope that only its token had", async () => {
    const scoped = "auth: { mode: tokens, tokensFile: ";
    const { file, gateway, write } = await stageTokens(acme.replace("  #", " scopes=export  #"), "acme");
    const rules = "rules: [{ paths: [/v1/export/], mode: tokens, scopes: [export] }], tokensFile: ";
    write(yamlWith(file, "acme").replace(scoped, `auth: { mode: tokens, ${rules}`));
    await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
    expect(told(gateway)).toEqual([]);
    writeFileSync(file, other);
    await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 2);
    expect(told(gateway)).toEqual([
      expect.stringMatching(/:2:\d+: auth\.rules\.0\.scopes: auth\.tokensFile has no token with all of these scopes, /),
      ofAcme(5),
    ]);
  });

  test("is told when the configuration gets it, and at no reload if the start had it", async () => {
    const { file, gateway, write } = await stageTokens(acme, "acne");
    write(yamlWith(file, "acne", "maxBodyBytes: 1KiB"));
    await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 1);
    expect(told(gateway)).toEqual([]);
    write(yamlWith(file, "acme"));
    await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 2);
    write(`# One line more\n${yamlWith(file, "acmo")}`);
    await eventually("it is reloaded", () => logged(gateway, "reloaded").length === 3);
    expect(told(gateway)).toEqual([ofAcme(6)]);
  });
});
