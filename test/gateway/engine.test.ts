// What one thread makes from the settings: a start that fails leaves nothing open, and a reload takes over exactly the parts
// whose settings are the same.
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import type { FileGroup, Files, Watched } from "../../src/core/file-group.ts";
import type { Settings } from "../../src/core/settings.ts";
import type { Configuration } from "../../src/gateway/configuration.ts";
import { type Engine, openEngine } from "../../src/gateway/engine.ts";
import { createCounterMemory, openCounters } from "../../src/gateway/open-counters.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";

const cleanup = useCleanup();
const silent = { write() {}, flush: (done?: () => void) => done?.() };

/** Files with the same contents everywhere. */
class KnownFiles implements Files {
  /** The paths of those that are open. */
  openPaths: string[] = [];
  readonly #missing: string | null;

  constructor(missing: string | null = null) {
    this.#missing = missing;
  }

  async open<T>({ paths, parse }: FileGroup<T>): Promise<Watched<T>> {
    const [path = ""] = Object.values(paths).filter((each) => each !== null);
    if (path === this.#missing) throw new Error(`no ${path}`);
    const text = `${digestOf("a")}\n`;
    const read = parse(Object.fromEntries(Object.keys(paths).map((key) => [key, text])), true);
    if (!read.ok) throw new Error("the file cannot be parsed");
    this.openPaths.push(path);
    const close = (): void => {
      this.openPaths = this.openPaths.filter((each) => each !== path);
    };
    return { value: read.value, isCurrent: true, onChange: () => {}, close };
  }
}

async function open(settings: Settings, files: KnownFiles): Promise<Engine> {
  const engine = await openEngine(settings, files, {
    counters: openCounters(createCounterMemory(settings.counters.memoryBytes)),
    clock: systemClock,
    log: createLog({ level: "silent", clock: systemClock, destination: silent }),
    droppedLogLines: () => 0,
    version: "0.0.0-test",
    nodeVersion: process.versions.node,
    sharedReads: false,
  });
  cleanup(() => engine.close());
  return engine;
}

const settingsOf = (overrides: Overrides = {}): Settings => testSettings("http://127.0.0.1:9", overrides);
const withTokens = (tokensFile: string): Overrides => ({ auth: { mode: "tokens", tokensFile } });
const withSecrets = (secretsFile: string): Overrides => ({
  extAuth: { http: { host: "127.0.0.1", port: 0, maxConnections: 1 }, trustedCallers: ["127.0.0.1"], secretsFile },
});

describe("a reload takes over each part whose settings are the same", () => {
  const partsOf = ({ upstream, limiter, refusals, files, traffic, checks }: Configuration) => ({
    ...{ upstream, limiter, refusals, clientAddress: traffic.clientAddress, callers: checks?.settings.callers },
    ...{ authenticator: files.authenticator, secrets: files.secrets },
  });
  const before: Overrides = { ...withTokens("/tokens"), ...withSecrets("/secrets") };
  const [policy] = settingsOf().policies;
  if (policy === undefined) throw new Error("the packaged configuration has a policy");

  test.each<[change: string, overrides: Overrides, replaced: string[]]>([
    ["nothing", {}, []],
    ["the largest body", { maxBodyBytes: 17 }, []],
    ["a timeout", { timeouts: { bodyMs: 17 } }, []],
    ["the upstream's URL", { upstream: { url: "http://127.0.0.1:10" } }, ["upstream"]],
    ["the tunnels", { upgrade: { maxTunnels: 17 } }, ["upstream"]],
    ["a policy", { policies: [{ ...policy, name: "another" }] }, ["limiter"]],
    ["the budget of refusals", { refusals: { perSecond: 1, burst: 2 } }, ["refusals"]],
    ["the trusted proxies", { clientAddress: { trustedProxies: ["10.0.0.1"] } }, ["clientAddress"]],
    ["the tokens", withTokens("/other-tokens"), ["authenticator"]],
    ["the secrets of callers", withSecrets("/other-secrets"), ["callers", "secrets"]],
  ])("when %s changed", async (_, overrides, replaced) => {
    const files = new KnownFiles();
    const engine = await open(settingsOf(before), files);
    const old = engine.configuration;
    (await engine.prepare(settingsOf({ ...before, ...overrides }))).commit();
    const now = engine.configuration;
    expect(now).not.toBe(old);
    const [was, is] = [partsOf(old), partsOf(now)];
    const names = Object.keys(was) as (keyof typeof was)[];
    expect(names.filter((name) => was[name] !== is[name]).sort()).toEqual(replaced);
    expect(files.openPaths).toHaveLength(2);
  });
});

test("requests, connections and checks see a new configuration from one moment on", async () => {
  const engine = await open(settingsOf(withSecrets("/secrets")), new KnownFiles());
  const { inForce } = engine;
  const prepared = await engine.prepare(settingsOf({ ...withSecrets("/secrets"), timeouts: { headMs: 17 } }));
  const old = inForce.configuration;
  expect(inForce.runtime.current).toBe(old.runtime);
  prepared.commit();
  const { configuration: now, runtime, traffic, checks } = inForce;
  expect(runtime.current).toBe(now.runtime);
  expect(traffic.current.headTimeoutMs).toBe(17);
  expect(checks?.runtime.current).toBe(now.checks?.runtime);
  expect(checks?.quotaRuntime.current).toBe(now.checks?.quotaRuntime);
  expect(checks?.settings.current.headTimeoutMs).toBe(17);
  expect(engine.configuration.settings.timeouts.headMs).toBe(17);
});

test("a configuration that is dropped closes what was opened for it, and leaves what is in force as it is", async () => {
  const files = new KnownFiles();
  const engine = await open(settingsOf(withTokens("/tokens")), files);
  const before = engine.configuration;
  const prepared = await engine.prepare(settingsOf({ ...withTokens("/other"), ...withSecrets("/secrets") }));
  expect(files.openPaths.sort()).toEqual(["/other", "/secrets", "/tokens"]);
  prepared.drop();
  expect(files.openPaths).toEqual(["/tokens"]);
  expect(engine.configuration).toBe(before);
});

test("a start or a reload that lacks a file closes those that it has opened", async () => {
  const atStart = new KnownFiles("/secrets");
  const wanted = settingsOf({ ...withTokens("/tokens"), ...withSecrets("/secrets") });
  await expect(open(wanted, atStart)).rejects.toThrow("no /secrets");
  expect(atStart.openPaths).toEqual([]);

  const files = new KnownFiles("/secrets");
  const engine = await open(settingsOf(withTokens("/other")), files);
  await expect(engine.prepare(wanted)).rejects.toThrow("no /secrets");
  expect(files.openPaths).toEqual(["/other"]);
});

test("a scrape has a series for each policy from the start, and for those that a reload adds", async () => {
  const [policy] = settingsOf().policies;
  if (policy === undefined) throw new Error("the packaged configuration has a policy");
  const engine = await open(settingsOf({ policies: [{ ...policy, name: "first" }] }), new KnownFiles());
  const policiesIn = async (): Promise<Set<string | undefined>> => {
    const { body } = await engine.telemetry.text(false);
    return new Set([...body.matchAll(/^headgate_remaining_ratio_count\{policy="([^"]*)"/gm)].map(([, name]) => name));
  };
  expect(await policiesIn()).toEqual(new Set(["first"]));
  const second = { ...policy, name: "second" };
  (await engine.prepare(settingsOf({ policies: [{ ...policy, name: "first" }, second] }))).commit();
  expect(await policiesIn()).toEqual(new Set(["first", "second"]));
});

test("closing an engine closes its files", async () => {
  const files = new KnownFiles();
  const engine = await open(settingsOf({ ...withTokens("/tokens"), ...withSecrets("/secrets") }), files);
  expect(files.openPaths).toHaveLength(2);
  await engine.close();
  expect(files.openPaths).toEqual([]);
});
