import { describe, expect, test } from "vitest";
import { emptyPolicies, loosenedKeys, withoutRestart } from "../../src/config/changes.ts";
import type { AuthRule } from "../../src/core/authentication.ts";
import type { Policy } from "../../src/core/policy.ts";
import type { Settings } from "../../src/core/settings.ts";
import type { StoreConnectionSettings } from "../../src/core/store-link.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { deadUrl } from "../support/unavailable.ts";

const settings = (overrides: Overrides = {}): Settings => testSettings(deadUrl, overrides);
const policy = (others: Partial<Policy> = {}): Policy => ({
  ...slidingPolicy({ limit: 100, windowMs: 60_000 }),
  ...others,
});

const tls = { cert: "/cert", key: "/key", clientCa: null, http2: true };
const snapshot = { path: "/snapshot", everyMs: 30_000 };
const checks = { host: "127.0.0.1", port: 1, maxConnections: 10 };

function store(connection: Partial<StoreConnectionSettings> = {}): NonNullable<Settings["counters"]["redis"]> {
  return {
    connection: {
      servers: { kind: "one", address: { host: "127.0.0.1", port: 6379 } },
      database: 0,
      username: null,
      passwordFile: null,
      tls: null,
      ...connection,
    },
    store: {
      prefix: "headgate:",
      waitMs: 10,
      lease: { durationMs: 1000, most: 1000 },
      onFailure: "local",
      replicas: "auto",
      maxKeys: 1_000_000,
    },
  };
}

test.each<[string, Overrides, Overrides, readonly string[]]>([
  ["nothing", {}, {}, []],
  ["bounds of listeners", {}, { listen: { maxConnections: 5 } }, []],
  [
    "the addresses",
    {},
    { listen: { host: "::", port: 2 }, admin: { port: 3 } },
    ["listen.host", "listen.port", "admin.port"],
  ],
  ["TLS that comes", {}, { listen: { tls } }, ["listen.tls.cert"]],
  ["TLS that goes", { listen: { tls } }, {}, ["listen.tls.cert"]],
  ["other files of TLS", { listen: { tls } }, { listen: { tls: { ...tls, cert: "/other" } } }, []],
  ["a listener for checks that comes", {}, { extAuth: { http: checks } }, ["extAuth.http.enabled"]],
  ["one that goes", { extAuth: { grpc: checks } }, {}, ["extAuth.grpc.enabled"]],
  [
    "one that moves",
    { extAuth: { grpc: checks } },
    { extAuth: { grpc: { ...checks, port: 2 } } },
    ["extAuth.grpc.port"],
  ],
  ["its bound", { extAuth: { grpc: checks } }, { extAuth: { grpc: { ...checks, maxConnections: 2 } } }, []],
  ["the memory of the counters", {}, { counters: { memoryBytes: 2 ** 21, snapshot: null } }, ["counters.memory"]],
  ["a snapshot that comes", {}, { counters: { snapshot } }, ["counters.snapshot.path"]],
  ["one that goes", { counters: { snapshot } }, {}, ["counters.snapshot.path"]],
  [
    "one that moves, more often",
    { counters: { snapshot } },
    { counters: { snapshot: { path: "/other", everyMs: 1_000 } } },
    ["counters.snapshot.path", "counters.snapshot.every"],
  ],
  ["a store that comes", {}, { counters: { redis: store() } }, ["counters.store"]],
  ["one that goes", { counters: { redis: store() } }, {}, ["counters.store"]],
  ["the same store", { counters: { redis: store() } }, { counters: { redis: store() } }, []],
  [
    "another place, and TLS",
    { counters: { redis: store({ username: "a" }) } },
    {
      counters: {
        redis: store({
          servers: { kind: "cluster", addresses: [{ host: "a", port: 1 }] },
          tls: { caFile: "/ca", certFile: null, keyFile: null, serverName: null },
          passwordFile: "/password",
        }),
      },
    },
    ["url", "cluster", "username", "passwordFile", "tls.enabled", "tls.ca"].map((key) => `counters.redis.${key}`),
  ],
  [
    "another use of it",
    { counters: { redis: store() } },
    {
      counters: {
        redis: {
          ...store(),
          store: {
            prefix: "b:",
            waitMs: 1,
            lease: { durationMs: 1, most: 1 },
            onFailure: "open",
            replicas: 1,
            maxKeys: 1,
          },
        },
      },
    },
    ["prefix", "wait", "lease.duration", "lease.most", "onFailure", "replicas", "maxKeys"].map(
      (key) => `counters.redis.${key}`,
    ),
  ],
  ["other workers", {}, { workers: 2 }, ["workers"]],
  ["the limits of policies", {}, { policies: [policy({ limit: 1_000_000_000 }), policy({ name: "other" })] }, []],
])("%s: the keys that need a restart keep their values, and no others", (_, before, after, keys) => {
  const inForce = settings(before);
  const result = withoutRestart(settings(after), inForce);
  expect(result.keys).toEqual(keys);
  // What is in force now needs no restart, and what was wanted needs the same one.
  expect(withoutRestart(result.settings, inForce)).toEqual({ settings: result.settings, keys: [] });
  expect(withoutRestart(settings(after), result.settings).keys).toEqual(keys);
});

describe("a reload of the rules about tokens gives up protection", () => {
  const rule = (...scopes: string[]): AuthRule => ({ paths: ["/v2/"], methods: [], mode: "tokens", scopes });
  const withRules = (...rules: AuthRule[]) => ({
    settings: settings({ auth: { mode: "tokens", tokensFile: "/tokens", rules } }),
    raw: null,
  });

  test.each<[what: string, before: AuthRule[], after: AuthRule[], isLoosened: boolean]>([
    ["a scope that goes with its rule", [rule("write")], [], true],
    ["a rule that asks for nothing", [], [{ ...rule(), mode: "off" }], true],
    ["another scope in place of one", [rule("write")], [rule("read")], true],
    ["a first scope", [], [rule("read")], false],
    ["nothing", [rule("read")], [rule("read")], false],
  ])("%s", (_, before, after, isLoosened) => {
    expect(loosenedKeys(withRules(...before), withRules(...after))).toEqual(isLoosened ? ["auth.rules"] : []);
  });
});

describe("a policy starts empty", () => {
  test.each<[string, Partial<Policy>, boolean]>([
    ["another limit", { limit: 5 }, false],
    ["another window", { rate: { kind: "sliding", windowMs: 1_000 } }, false],
    ["another mode, cost and match", { mode: "shadow", cost: 2, match: { paths: ["/v2/"], methods: [] } }, false],
    ["another name", { name: "other" }, true],
    ["another kind", { rate: { kind: "concurrency" } }, true],
    ["another key", { key: [{ kind: "header", name: "x-a" }] }, true],
    ["one part more", { key: [{ kind: "client" }, { kind: "method" }] }, true],
  ])("with %s: %j, %s", (_, others, isEmpty) => {
    expect(emptyPolicies([policy(others)], [policy()])).toEqual(isEmpty ? [policy(others).name] : []);
  });
});
