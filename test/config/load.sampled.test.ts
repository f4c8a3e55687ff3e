// From what was written to Settings: which source wins, how a key is named in each, and what contradicts what.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { renderConfigError } from "../../src/config/written.ts";
import type { Settings } from "../../src/core/settings.ts";
import { inFullOr } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { type Given, loadGiven } from "./given.ts";

const folder = scratchFolder(afterAll);

function load(given: Given) {
  return loadGiven(folder, given);
}

function settings(given: Given): Settings {
  const loaded = load(given);
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  return loaded.settings;
}

function errors(given: Given): string[] {
  const loaded = load(given);
  return loaded.ok ? [] : loaded.errors.map(renderConfigError);
}

describe("sources", () => {
  const yaml = "listen: { host: 127.0.0.1, port: 1 }\n";
  const env = { HEADGATE_LISTEN_PORT: "2" };

  test("the command line beats the environment, which beats the file, key by key", () => {
    expect(settings({ yaml }).listen).toMatchObject({ host: "127.0.0.1", port: 1 });
    expect(settings({ yaml, env }).listen).toMatchObject({ host: "127.0.0.1", port: 2 });
    expect(settings({ yaml, env, flags: ["--port", "3"] }).listen).toMatchObject({ host: "127.0.0.1", port: 3 });
    expect(settings({ yaml, env, flags: ["--set", "listen.port=3"] }).listen.port).toBe(3);
  });

  test("on the command line the last one wins, shorthand or not", () => {
    expect(settings({ flags: ["--port", "3", "--set", "listen.port=4"] }).listen.port).toBe(4);
    expect(settings({ flags: ["--set", "listen.port=4", "--port", "3"] }).listen.port).toBe(3);
  });

  test("a mistake that is overridden is still a mistake", () => {
    expect(errors({ yaml: "listen: { port: x }", flags: ["--port", "80"] })).toHaveLength(1);
    expect(errors({ env: { HEADGATE_LISTEN_PORT: "x" }, flags: ["--port", "80"] })).toHaveLength(1);
  });

  test("HEADGATE_CONFIG names the file, unless --config does; empty names none", () => {
    writeFileSync(join(folder, "other.yaml"), "basePath: /other\n");
    const bare = { cwd: folder, overrides: [] };
    const byVariable = loadSettings({ ...bare, env: { HEADGATE_CONFIG: "other.yaml" } });
    expect(byVariable).toMatchObject({ ok: true, file: "other.yaml", settings: { basePath: "/other" } });
    expect(settings({ env: { HEADGATE_CONFIG: "other.yaml" } }).basePath).toBe("/");
    expect(loadSettings({ ...bare, env: { HEADGATE_CONFIG: "" } })).toMatchObject({
      ok: true,
      settings: { basePath: "/" },
    });
  });

  test("an unreadable file is one clear line, and the environment is checked all the same", () => {
    const loaded = loadSettings({
      file: "nowhere.yaml",
      env: { HEADGATE_LISTEN_PORT: "x" },
      cwd: folder,
      overrides: [],
    });
    expect(loaded.ok ? [] : loaded.errors.map(renderConfigError)).toEqual([
      "nowhere.yaml: cannot be read: no such file",
      'environment HEADGATE_LISTEN_PORT: listen.port: found "x", expected a whole number from 0 to 65535',
    ]);
  });

  test("thousands of mistakes are counted, and the first of them listed", () => {
    const count = inFullOr(19_000, 3_000);
    const lines = (line: (i: number) => string) => Array.from({ length: count }, (_, i) => line(i)).join("");
    const unknown = errors({ yaml: `${lines((i) => `key${i}: 1\n`)}listen: { port: x }` });
    expect(unknown).toHaveLength(22);
    expect(unknown[0]).toMatch(/^c\.yaml:1:1: key0: unknown key; expected listen, /);
    expect(unknown[20]).toBe(`c.yaml:21:1: found ${count - 20} more unknown keys, expected none`);
    expect(unknown[21]).toMatch(new RegExp(`^c\\.yaml:${count + 1}:17: listen\\.port: `));

    const twice = errors({ yaml: `drain: {}\n${lines(() => "log: {}\n")}` });
    expect(twice).toHaveLength(101);
    expect(twice[99]).toMatch(/^c\.yaml:102:1: log: found a second one, /);
    expect(twice[100]).toBe(`c.yaml:103:1: ${count - 101} more errors`);
  });

  test("items beyond the bound of a list are not looked at, and no long text is shown", () => {
    const found = errors({ yaml: `fields: [&long "${"x".repeat(100_000)}", ${"*long, ".repeat(80)}]\n` });
    expect(found).toHaveLength(1 + 3);
    expect(found[0]).toMatch(/^c\.yaml:1:9: fields: found a list of 81, expected /);
    expect(found[3]).toMatch(/^c\.yaml:1:\d+: fields\.2: found text of 100000 characters, expected /);
  });

  test("a file of megabytes is no configuration", () => {
    expect(errors({ yaml: `# ${"x".repeat(300_000)}\n` })).toEqual([
      "c.yaml: found more than 256 KiB, expected a configuration",
    ]);
  });
});

describe("a value outside the file", () => {
  test.each<[Record<string, string>, Partial<Settings>]>([
    [{ HEADGATE_UPSTREAM_URL: "http://api" }, { upstream: { ...settings({}).upstream, url: "http://api" } }],
    [{ HEADGATE_UPSTREAM_CONNECT_TIMEOUT: "5s" }, { upstream: { ...settings({}).upstream, connectTimeoutMs: 5000 } }],
    [
      { HEADGATE_POLICIES_0_LIMIT: "7" },
      { policies: settings({}).policies.map((policy) => ({ ...policy, limit: 7 })) },
    ],
    [
      { HEADGATE_POLICIES: "[{ name: per-ip, limit: 7, window: 60s }]" },
      { policies: settings({}).policies.map((policy) => ({ ...policy, limit: 7 })) },
    ],
    [{ HEADGATE_ROUTES: "[/a/, /b/]" }, { routes: ["/a/", "/b/"] }],
    [{ HEADGATE_ROUTES: "/a/, /b/" }, { routes: ["/a/", "/b/"] }],
    [{ HEADGATE_ROUTES_1: "/b/" }, { routes: ["/v1/", "/b/"] }],
    [{ HEADGATE_ROUTES_2: "/v3/" }, { routes: ["/v1/", "/v2/", "/v3/"] }],
    [{ HEADGATE_LISTEN: "{ port: 1 }" }, { listen: { ...settings({}).listen, port: 1 } }],
    [{ HEADGATE_LISTEN_HOST: "::" }, { listen: { ...settings({}).listen, host: "::" } }],
    [{ HEADGATE_MAX_BODY_BYTES: "1024" }, { maxBodyBytes: 1024 }],
    [{ HEADGATE_DRAIN_DELAY: "0" }, { drain: { delayMs: 0, timeoutMs: 25_000 } }],
    [{ HEADGATE_LOG_ACCESS: "false" }, { log: { level: "info", access: false, subject: "plain", time: "unix" } }],
    [{ HEADGATE_AUTH_REALM: "true" }, { auth: { mode: "presence", rules: [], realm: "true", tokensFile: null } }],
    [{ HEADGATE_AUTH_TOKENS_FILE: "" }, { auth: { mode: "presence", rules: [], realm: "finance", tokensFile: null } }],
    [
      {
        ...{ HEADGATE_CLIENT_ADDRESS_TRUSTED_PROXIES: "::1,10.0.0.0/8", HEADGATE_CLIENT_ADDRESS_IPV6_PREFIX: "56" },
        HEADGATE_CLIENT_ADDRESS_DROP_HEADERS: "Remote-User,x-role",
      },
      {
        clientAddress: {
          ...{ trustedProxies: ["::1", "10.0.0.0/8"], header: "x-forwarded-for", ipv6Prefix: 56 },
          dropHeaders: ["remote-user", "x-role"],
        },
      },
    ],
  ])("%j", (env, expected) => {
    expect(settings({ env })).toEqual({ ...settings({}), ...expected });
  });

  test("a whole list comes before one of its items, whatever the order", () => {
    const env = { HEADGATE_POLICIES_0_LIMIT: "7", HEADGATE_POLICIES: "[{ name: a, limit: 5, window: 1s }]" };
    expect(settings({ env }).policies[0]).toMatchObject({ name: "a", limit: 7 });
  });

  test("a list replaces the file's, an item changes it", () => {
    const yaml = "policies: [{ name: a, limit: 5, window: 1s }]";
    expect(settings({ yaml, flags: ["--set", "policies[0].limit=6"] }).policies[0]).toMatchObject({
      name: "a",
      limit: 6,
    });
    expect(
      settings({ yaml, flags: ["--set", "policies=[{name: per-ip, limit: 6, window: 1s}]"] }).policies[0],
    ).toMatchObject({
      name: "per-ip",
      limit: 6,
    });
  });

  test.each<[string, Given]>([
    [
      'environment HEADGATE_UPSTREM_URL: unknown variable; did you mean "HEADGATE_UPSTREAM_URL"?',
      { env: { HEADGATE_UPSTREM_URL: "x" } },
    ],
    [
      'environment HEADGATE_POLICY_LIMIT: unknown variable; did you mean "HEADGATE_POLICIES_0_LIMIT"?',
      { env: { HEADGATE_POLICY_LIMIT: "10" } },
    ],
    [
      'environment HEADGATE_TRUSTED_PROXIES: unknown variable; did you mean "HEADGATE_CLIENT_ADDRESS_TRUSTED_PROXIES"?',
      { env: { HEADGATE_TRUSTED_PROXIES: "10.0.0.0/8" } },
    ],
    [
      "environment HEADGATE_API_CREDENTIALS: unknown variable; expected HEADGATE_ and the path of a key, such as HEADGATE_UPSTREAM_URL",
      { env: { HEADGATE_API_CREDENTIALS: "hunter2" } },
    ],
    [
      'environment HEADGATE_PASSWORD: unknown variable; did you mean "HEADGATE_COUNTERS_REDIS_SENTINELS_PASSWORD_FILE" or "HEADGATE_COUNTERS_REDIS_PASSWORD_FILE"?',
      { env: { HEADGATE_PASSWORD: "hunter2" } },
    ],
    [
      'command line --set: listen: found "80", expected a mapping of host, port, proxyProtocol, proxyScheme, maxConnections, maxConnectionsPerPeer, newConnectionsPerPeer, maxRequestsPerConnection and tls',
      { flags: ["--set", 'listen="80"'] },
    ],
    [
      "environment HEADGATE_ROUTES: routes: found an empty list, expected a list of 1 to 64 paths",
      { env: { HEADGATE_ROUTES: "" } },
    ],
    [
      "environment HEADGATE_ROUTES: routes: not valid YAML: flow sequence must end with a ]",
      { env: { HEADGATE_ROUTES: "[/v1/" } },
    ],
    [
      "environment HEADGATE_LISTEN: listen.port: found a second one, expected one",
      { env: { HEADGATE_LISTEN: "{port: 1, port: 2}" } },
    ],
    [
      "environment HEADGATE_POLICIES_1_NAME: policies.1: found a mapping, expected one of limit with window, limit with per, and concurrency in it",
      { env: { HEADGATE_POLICIES_1_NAME: "second" } },
    ],
    ["command line --set: routes.4: found 4, expected an index from 0 to 2", { flags: ["--set", "routes.4=/x/"] }],
    [
      'command line --set: listen.prot: unknown key; did you mean "listen.port"?',
      { flags: ["--set", "listen.prot=1"] },
    ],
    [
      'command line --set: upstrem.url: unknown key; did you mean "upstream.url"?',
      { flags: ["--set", "upstrem.url=x"] },
    ],
    [
      'command line --set: policies.1.limt: unknown key; did you mean "policies.1.limit"?',
      {
        yaml: "policies: [{ name: a, limit: 5, per: day }, { name: b, limit: 5, per: day }]",
        flags: ["--set", "policies.b.limt=1"],
      },
    ],
    ["command line --set: basePath.x: unknown key; expected none", { flags: ["--set", "basePath.x=1"] }],
    [
      "command line --set: listen.constructor: unknown key; expected host, port, proxyProtocol, proxyScheme, maxConnections, maxConnectionsPerPeer, newConnectionsPerPeer, maxRequestsPerConnection or tls",
      { flags: ["--set", "listen.constructor=1"] },
    ],
    [
      'command line --port: listen.port: found "eighty", expected a whole number from 0 to 65535',
      { flags: ["--port", "eighty"] },
    ],
    [
      'command line --upstream: upstream.url: found "http://***@api", expected an absolute http:// or https:// URL without credentials, query or fragment',
      { flags: ["--upstream", "http://root:hunter2@api"] },
    ],
  ])("%s", (message, given) => {
    const yaml = "routes: [/v1/, /v2/]\n";
    expect(errors({ yaml, ...given })).toEqual([message]);
  });

  test("what Kubernetes sets for Services of our name is nobody's mistake", () => {
    const env = {
      HEADGATE_SERVICE_HOST: "10.96.0.7",
      HEADGATE_SERVICE_PORT: "80",
      HEADGATE_SERVICE_PORT_HTTP: "80",
      HEADGATE_PORT: "tcp://10.96.0.7:80",
      HEADGATE_PORT_80_TCP: "tcp://10.96.0.7:80",
      HEADGATE_PORT_80_TCP_ADDR: "10.96.0.7",
      // For a Service named headgate-admin: the name of a key of ours.
      HEADGATE_ADMIN_PORT: "tcp://10.96.0.8:9464",
      HEADGATE_REQUIRE: "all",
    };
    expect(settings({ env })).toEqual(settings({}));
    expect(errors({ env: { HEADGATE_PORT: "80" } })).toHaveLength(1);
  });
});

describe("the tokens file", () => {
  const named = "auth: { mode: tokens, tokensFile: secrets/tokens.txt }";

  test("is looked for from where it was named", () => {
    writeFileSync(join(folder, "elsewhere.yaml"), named);
    const file = join(folder, "elsewhere.yaml");
    const fromFile = loadSettings({ file, env: {}, cwd: "/srv", overrides: [] });
    expect(fromFile).toMatchObject({ settings: { auth: { tokensFile: join(folder, "secrets/tokens.txt") } } });
    const env = { HEADGATE_AUTH_TOKENS_FILE: "tokens.txt" };
    const fromVariable = loadSettings({ file, env, cwd: "/srv", overrides: [] });
    expect(fromVariable).toMatchObject({ settings: { auth: { tokensFile: "/srv/tokens.txt" } } });
  });

  test("and its mode are one setting, wherever each was written", () => {
    const mode = { HEADGATE_AUTH_MODE: "tokens" };
    expect(settings({ yaml: "auth: { mode: tokens, tokensFile: t.txt }" }).auth.mode).toBe("tokens");
    expect(errors({ env: mode })).toEqual([
      "environment HEADGATE_AUTH_MODE: auth.tokensFile: found nothing, expected the path of a file, since auth.mode is tokens; name the file, or change auth.mode",
    ]);
    expect(errors({ yaml: "auth: { tokensFile: t.txt }" })).toEqual([
      'c.yaml:1:21: auth.tokensFile: found "t.txt", expected none, since auth.mode is presence; remove it, or set auth.mode to tokens',
    ]);
    expect(settings({ env: { ...mode, HEADGATE_AUTH_TOKENS_FILE: "t.txt" } }).auth.tokensFile).toBe(
      join(folder, "t.txt"),
    );
  });
});

describe("counters", () => {
  const path = join(folder, "counters");

  test("have 32 MiB and no snapshot by default", () => {
    expect(settings({}).counters).toEqual({ memoryBytes: 32 * 2 ** 20, snapshot: null, redis: null });
  });

  test("have a snapshot, every 30 s, if there is a path", () => {
    const snapshot = { path, everyMs: 30_000 };
    expect(settings({ yaml: "counters: { snapshot: { path: counters } }" }).counters.snapshot).toEqual(snapshot);
    expect(settings({ env: { HEADGATE_COUNTERS_SNAPSHOT_PATH: "counters" } }).counters.snapshot).toEqual(snapshot);
    const yaml = "counters: { memory: 4GiB, snapshot: { path: counters, every: 1h } }";
    expect(settings({ yaml }).counters).toEqual({
      memoryBytes: 4 * 2 ** 30,
      snapshot: { path, everyMs: 3_600_000 },
      redis: null,
    });
  });

  test("say how often only with a path, except for the default", () => {
    expect(errors({ yaml: "counters: { snapshot: { path: null, every: 30s } }" })).toEqual([]);
    expect(errors({ yaml: "counters: { snapshot: { path: null, every: 10s } }" })).toEqual([
      "c.yaml:1:31: counters.snapshot.path: found nothing, expected the path of a file, since counters.snapshot.every is set; name one, or remove counters.snapshot.every",
    ]);
  });
});

describe("reload.trial", () => {
  test("says how a reload is tried", () => {
    const off = { confirmWithinMs: null, unlessRefused: null, unconfirmed: "takeBack" };
    expect(settings({}).reload).toEqual({ watch: true, trial: off });
    const yaml = "reload: { trial: { confirmWithin: 5m, unlessRefused: 2.5%, unconfirmed: keep } }";
    expect(settings({ yaml }).reload.trial).toEqual({
      ...{ confirmWithinMs: 300_000, unlessRefused: 0.025, unconfirmed: "keep" },
    });
  });

  test("has a share and an end only with a time", () => {
    expect(errors({ yaml: "reload: { trial: { unlessRefused: 5% } }" })).toEqual([
      "c.yaml:1:35: reload.trial.confirmWithin: found nothing, expected a duration, since reload.trial.unlessRefused is set; set one, or remove reload.trial.unlessRefused",
    ]);
    expect(errors({ yaml: "reload: { trial: { unconfirmed: keep } }" })).toEqual([
      "c.yaml:1:33: reload.trial.confirmWithin: found nothing, expected a duration, since reload.trial.unconfirmed is set; set one, or remove reload.trial.unconfirmed",
    ]);
  });

  test.each(["5", "5 %", "100%", "-1%", "0.05", ".5%", "1e1%", "5%%"])("refuses %s as a share", (share) => {
    const [error] = errors({ yaml: `reload: { trial: { confirmWithin: 5m, unlessRefused: "${share}" } }` });
    expect(error).toContain('expected a percentage from 0% to 99%, such as "5%"');
  });
});

describe("workers", () => {
  const auto = (processors: number, set: readonly string[] = []): number => {
    const flags = ["workers=auto", ...set].flatMap((each) => ["--set", each]);
    const loaded = loadGiven(folder, { flags }, () => processors);
    if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
    return loaded.settings.workers;
  };

  test("are one by default, a number, or as many as there are processors", () => {
    expect(settings({}).workers).toBe(1);
    expect(settings({ yaml: "workers: 64" }).workers).toBe(64);
    expect(settings({ env: { HEADGATE_WORKERS: "3" } }).workers).toBe(3);
    expect(auto(6)).toBe(6);
  });

  test("of their own accord are never more than the limits allow", () => {
    expect(auto(100)).toBe(64);
    expect(auto(6, ["upstream.maxConnections=4"])).toBe(4);
    expect(auto(6, ["upgrade.maxTunnels=5"])).toBe(5);
  });

  test.each([
    ["workers: 0", "c.yaml:1:10: workers: found 0, expected a whole number from 1 to 64, or auto"],
    ["workers: 65", "c.yaml:1:10: workers: found 65, expected a whole number from 1 to 64, or auto"],
    ["workers: all", 'c.yaml:1:10: workers: found "all", expected a whole number from 1 to 64, or auto'],
    ['workers: "2"', 'c.yaml:1:10: workers: found "2", expected a whole number from 1 to 64, without quotes, or auto'],
  ])("%s is refused", (yaml, message) => {
    expect(errors({ yaml })).toEqual([message]);
  });

  test("are not more than the connections and tunnels that are divided among them", () => {
    expect(errors({ yaml: "workers: 8\nupstream: { maxConnections: 7 }\nupgrade: { maxTunnels: 6 }" })).toEqual([
      "c.yaml:1:10: workers: found 8, expected at most upstream.maxConnections (7); lower it, or raise upstream.maxConnections",
      "c.yaml:1:10: workers: found 8, expected at most upgrade.maxTunnels (6); lower it, or raise upgrade.maxTunnels",
    ]);
  });
});

describe("of values that contradict each other", () => {
  test("those are told that have nothing to do with what is wrong by itself", () => {
    const yaml = "drain: { delay: 5 }\nauth: { mode: tokens }\nlisten: { maxConnections: 9, port: x }\n";
    expect(errors({ yaml })).toEqual([
      'c.yaml:1:17: drain.delay: found 5, expected a duration with its unit, such as "5s"',
      "c.yaml:2:15: auth.tokensFile: found nothing, expected the path of a file, since auth.mode is tokens; name the file, or change auth.mode",
      "c.yaml:3:27: listen.maxConnectionsPerPeer: found 1000, expected at most listen.maxConnections (9); lower it, or raise listen.maxConnections",
      'c.yaml:3:36: listen.port: found "x", expected a whole number from 0 to 65535',
    ]);
  });

  test.each<[string, Given]>([
    ["a mode that is none", { yaml: "auth: { mode: file, tokensFile: t.txt }" }],
    ["a misspelled key", { yaml: "auth: { mode: tokens, tokenFile: t.txt }" }],
    ["a misspelled variable", { yaml: "auth: { mode: tokens }", env: { HEADGATE_AUTH_TOKEN_FILE: "t.txt" } }],
    ["a key that stands there twice", { yaml: "auth: { mode: off, mode: tokens }" }],
    ["a URL that is none", { yaml: "upstream: { url: api, tls: { ca: ca.pem } }" }],
    ["a file that is no YAML", { yaml: "auth: { tokensFile: t.txt", flags: ["--set", "auth.mode=tokens"] }],
    ["a list that is none", { yaml: "upstream: { addresses: here }", flags: ["--upstream", "http://127.0.0.1:8080"] }],
  ])("%s is told, and nothing that follows from it", (_, given) => {
    expect(errors(given)).toHaveLength(1);
  });

  test("what is no YAML in one variable hides only what it is about", () => {
    expect(errors({ env: { HEADGATE_ROUTES: "[/v1/", HEADGATE_AUTH_MODE: "tokens" } })).toHaveLength(2);
    expect(errors({ env: { HEADGATE_AUTH: "{ tokensFile: [", HEADGATE_AUTH_MODE: "tokens" } })).toHaveLength(1);
  });
});

describe("addresses that cannot all be opened", () => {
  test.each([
    ["0.0.0.0", "127.0.0.1", true],
    ["::", "127.0.0.1", true],
    ["::", "::1", true],
    ["0:0:0:0:0:0:0:0", "10.0.0.1", true],
    ["localhost", "127.0.0.1", true],
    ["LOCALHOST", "::1", true],
    ["0.0.0.0", "localhost", true],
    ["127.0.0.1", "127.0.0.1", true],
    ["::1", "0:0:0:0:0:0:0:1", true],
    ["127.0.0.1", "127.0.0.2", false],
    ["127.0.0.1", "::1", false],
    ["0.0.0.0", "::1", false],
    ["10.0.0.1", "localhost", false],
  ])("%s and %s on one port: %s", (one, other, collide) => {
    for (const [listen, admin] of [
      [one, other],
      [other, one],
    ] as const) {
      const flags = ["--port", "80", "--host", listen, "--admin-port", "80", "--admin-host", admin];
      expect(errors({ flags })).toHaveLength(collide ? 1 : 0);
    }
  });

  test("port 0 collides with nothing", () => {
    expect(errors({ flags: ["--port", "0", "--admin-port", "0"] })).toEqual([]);
  });

  test.each([
    ["http://127.0.0.1:8080", 1],
    ["http://[::1]:8080/x", 0], // 0.0.0.0 takes no IPv6
    ["http://localhost:9464", 1],
    ["http://127.0.0.1:8081", 0],
    ["http://api:8080", 0],
  ])("an upstream at %s is %i mistake", (url, count) => {
    expect(errors({ flags: ["--upstream", url] })).toHaveLength(count);
  });
});
