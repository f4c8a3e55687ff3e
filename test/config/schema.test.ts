// The definition against what is written beside it: the packaged file, the JSON Schema, the names of the variables.
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import * as z from "zod";
import { jsonSchema, jsonSchemaText } from "../../config/source/json-schema.ts";
import { configReference } from "../../config/source/reference.ts";
import { allEntries } from "../../src/config/definition.ts";
import { effective } from "../../src/config/effective.ts";
import { loadSettings, packagedConfigFile } from "../../src/config/load.ts";
import { variableName } from "../../src/config/overrides.ts";
import { schema } from "../../src/config/schema.ts";
import { validate } from "../../src/config/validate.ts";
import { type Raw, rawAt } from "../../src/config/written.ts";
import { readYaml } from "../../src/config/yaml-source.ts";

const packagedText = readFileSync(packagedConfigFile, "utf8");
const packaged = readYaml(packagedText, "headgate.yaml");

describe("the packaged headgate.yaml", () => {
  test("is exactly the defaults", () => {
    expect(packaged.errors).toEqual([]);
    const { values, errors } = validate(schema, packaged.raw);
    expect(errors).toEqual([]);
    expect(values).toEqual(validate(schema, undefined).values);
  });

  test("shows every key, as it is written in the definition", () => {
    const shown = effective(schema);
    for (const { path } of allEntries(schema)) {
      expect([path.join("."), written(rawAt(packaged.raw, path))]).toEqual([
        path.join("."),
        path.reduce(valueIn, shown),
      ]);
    }
  });

  test("points an editor to its schema", () => {
    expect(packagedText.split("\n")[0]).toBe("# yaml-language-server: $schema=./headgate.schema.json");
  });

  test("is what starts without any configuration", () => {
    expect(loadSettings({ env: {}, cwd: "/", overrides: [] })).toMatchObject({ ok: true, file: packagedConfigFile });
  });
});

function valueIn(value: unknown, key: string): unknown {
  return (value as Record<string, unknown> | undefined)?.[key];
}

function written(raw: Raw | undefined): unknown {
  if (raw?.kind === "list") return raw.items.map(written);
  return raw?.kind === "scalar" ? raw.value : undefined;
}

describe("the JSON Schema", () => {
  test("is up to date in config/ (npm run schema)", () => {
    expect(readFileSync(new URL("../../config/headgate.schema.json", import.meta.url), "utf8")).toBe(jsonSchemaText());
  });

  // Read by somebody else's code, so that it means to others what it means to us.
  const editor = z.fromJSONSchema(jsonSchema() as z.core.JSONSchema.JSONSchema);

  test("accepts the packaged file, and one with empty sections", () => {
    expect(editor.safeParse(parse(packagedText)).error).toBeUndefined();
    expect(editor.safeParse(parse("listen:\nlog:\n  access: false\n")).error).toBeUndefined();
  });

  test("refuses nothing that the gateway accepts", () => {
    for (const value of [
      { drain: { delay: 0 } },
      { maxBodyBytes: 1 },
      { maxBodyBytes: "1TiB" },
      { upstream: { url: "HTTP://[::1]:3000/x" } },
      { upstream: { url: "https://api.example.com/x", tls: { ca: "ca.pem", serverName: "backend" } } },
      { basePath: "/x/" },
      { routes: ["/"] },
      { policies: [{ name: "a", limit: 1, window: "31d", per: null }] },
      { policies: [{ name: "a", limit: 1, per: "month", timezone: "America/New_York", key: [] }] },
      {
        policies: [
          {
            name: "a",
            concurrency: 65_535,
            match: { paths: ["/", "/v1/*/x"], methods: ["M-SEARCH"] },
            key: ["client", "token", "route", "method", "HEADER:X-Plan"],
            exempt: ["10.0.0.0/8"],
            overrides: [
              { client: "::ffff:192.0.2.1", limit: 1 },
              { header: "gold plan", limit: 2 },
              { token: "A".repeat(64), limit: 2 },
            ],
          },
        ],
      },
      { auth: { mode: "tokens", tokensFile: "t.txt" } },
      { counters: { memory: 1_048_576, snapshot: { path: "counters", every: "1s" } }, workers: "auto" },
      { counters: { memory: "4GiB", snapshot: { path: null } }, workers: 64 },
    ]) {
      expect(validate(schema, readYaml(JSON.stringify(value), "f.json").raw).errors).toEqual([]);
      expect([value, editor.safeParse(value).success]).toEqual([value, true]);
    }
  });

  test("marks most of the broken configurations, and knows what it cannot mark", () => {
    const folder = new URL("broken/", import.meta.url);
    const unmarked = readdirSync(folder).filter((name) => {
      if (!name.endsWith(".yaml") || /^(syntax|two|alias|duplicate|not-utf)/.test(name)) return false;
      return editor.safeParse(parse(readFileSync(new URL(name, folder), "utf8"))).success;
    });
    expect(unmarked).toEqual([
      // What two values mean together, what stands in another file, what only a parser of addresses can tell.
      ...[
        "admin-hosts-url.yaml",
        "admin-hosts-without-api.yaml",
        "admin-tls-without-cert.yaml",
        "admin-tls-without-key.yaml",
        "admin-tokens-missing.yaml",
        "admin-tokens-wrong.yaml",
        "auth-rule-covered.yaml",
        "auth-rule-no-file.yaml",
        "auth-rule-no-route.yaml",
        "auth-rule-scopes.yaml",
        "base-path-dots.yaml",
        "connections-per-peer.yaml",
        "cors-twice.yaml",
        "drop-headers-in-key.yaml",
        "drop-headers-own.yaml",
        "drop-headers-spelling.yaml",
        "drop-headers-twice.yaml",
        "duration-too-long.yaml",
        "duration-zero.yaml",
        "ext-auth-grpc-is-the-upstream.yaml",
        "ext-auth-grpc-port-taken.yaml",
        "ext-auth-grpc-without-callers.yaml",
        "ext-auth-is-the-upstream.yaml",
        "ext-auth-port-taken.yaml",
        "ext-auth-secrets-missing.yaml",
        "ext-auth-without-callers.yaml",
        "fields-structured-only.yaml",
      ],
      ...["fields-twice.yaml", "host-mistyped-address.yaml", "host-with-brackets.yaml", "host-with-port.yaml"],
      "listeners-collide.yaml",
      "only-comments.yaml",
      ...unmarkedPolicies,
      ...["proxy-name.yaml", "proxy-prefix.yaml", "proxy-scheme.yaml", "quota-path-known.yaml"],
      ...["readiness-path-limited.yaml", "readiness-path-of-quota.yaml"],
      ...["route-inside-another.yaml", "route-twice.yaml", "size-of-heads.yaml", "target-above-head.yaml"],
      ...["tls-without-cert.yaml", "tls-without-key.yaml"],
      ...["tokens-file-bad-line.yaml", "tokens-file-empty.yaml"],
      ...["tokens-file-missing.yaml", "tokens-file-without-mode.yaml", "tokens-without-file.yaml"],
      ...["upstream-address-is-the-gateway.yaml", "upstream-address-port.yaml", "upstream-address-scheme.yaml"],
      ...["upstream-address-twice.yaml", "upstream-is-the-gateway.yaml"],
      ...["upstream-tls-ca-missing.yaml", "upstream-tls-ca-no-certificate.yaml", "upstream-tls-cert-without-key.yaml"],
      ...[
        "upstream-tls-insecure-without-https.yaml",
        "upstream-tls-server-name.yaml",
        "upstream-tls-without-https.yaml",
      ],
      "zero-bytes.yaml",
    ]);
  });
});

const unmarkedPolicies = [
  "policies-empty-item.yaml",
  "policies-same-name.yaml",
  "policy-charge-concurrency.yaml",
  "policy-charge-empty.yaml",
  "policy-charge-limit.yaml",
  "policy-charge-override.yaml",
  "policy-charge-status-twice.yaml",
  "policy-charge-without-statuses.yaml",
  "policy-cost-over-concurrency.yaml",
  "policy-cost-over-limit.yaml",
  "policy-cost-over-override.yaml",
  "policy-exempt-name.yaml",
  "policy-exempt-narrow.yaml",
  "policy-key-authorization.yaml",
  "policy-key-claim.yaml",
  "policy-key-forwarded-for.yaml",
  "policy-key-header-underscore.yaml",
  "policy-key-subject.yaml",
  "policy-key-twice.yaml",
  "policy-limit-and-concurrency.yaml",
  "policy-limit-without-window.yaml",
  "policy-match-base-path.yaml",
  "policy-match-dot-segment.yaml",
  "policy-match-glob.yaml",
  "policy-match-method-all.yaml",
  "policy-match-method-twice.yaml",
  "policy-match-no-route.yaml",
  "policy-match-parameter-name.yaml",
  "policy-match-path-twice.yaml",
  "policy-match-star-part.yaml",
  "policy-override-concurrency.yaml",
  "policy-override-exempt.yaml",
  "policy-override-narrow.yaml",
  "policy-override-network.yaml",
  "policy-override-no-header.yaml",
  "policy-override-not-in-key.yaml",
  "policy-override-token-name.yaml",
  "policy-override-twice.yaml",
  "policy-override-two-headers.yaml",
  "policy-override-two-parts.yaml",
  "policy-override-without-part.yaml",
  "policy-per-without-limit.yaml",
  "policy-timezone-abbreviation.yaml",
  "policy-timezone-unknown.yaml",
  "policy-timezone-without-per.yaml",
  "policy-who-others-subject.yaml",
  "policy-who-verified.yaml",
  "policy-window-32d.yaml",
  "policy-window-and-concurrency.yaml",
  "policy-window-and-per.yaml",
  "policy-window-without-limit.yaml",
  "policy-window.yaml",
  "policy-without-limit.yaml",
];

test("no two keys share a variable", () => {
  const names = allEntries(schema).map(({ path }) => variableName(path));
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain("HEADGATE_UPSTREAM_CONNECT_TIMEOUT");
  expect(names).toContain("HEADGATE_CLIENT_ADDRESS_IPV6_PREFIX");
  expect(names).toContain("HEADGATE_POLICIES_0_MATCH_PATHS");
});

test("every default is one its own key accepts", () => {
  for (const { path, node } of allEntries(schema)) {
    if (node.kind === "leaf") expect([path, node.parse(node.default)]).not.toEqual([path, undefined]);
    else
      for (const value of [node.default].flat())
        expect([path, node.item.parse(value as string)]).not.toEqual([path, undefined]);
  }
});

test("the reference has a row for every key, with variable, default, bounds and meaning", () => {
  const rows = configReference()
    .split("\n")
    .filter((line) => line.startsWith("| `"));
  for (const { path, node } of allEntries(schema)) {
    const row = rows.find((line) => line.includes(`<br>\`${variableName(path)}\` |`));
    expect(row?.split(/(?<!\\) \| /).slice(1)).toEqual([
      expect.stringMatching(/^`.+`$/),
      expect.stringContaining(node.expected.replaceAll("|", "\\|")),
      `${node.description.replaceAll("|", "\\|")} |`,
    ]);
  }
  expect(rows).toContain(
    "| `policies[0].window`<br>`HEADGATE_POLICIES_0_WINDOW` | `60s` | a duration from 100ms to 31d | Length of the sliding window. |",
  );
  expect(rows).toContainEqual(expect.stringMatching(/^\| `listen\.tls` \| {2}\| a mapping \| TLS /));
  expect(rows.every((row) => row.match(/(?<!\\)\|/g)?.length === 5)).toBe(true);
});

test("every key has a sentence", () => {
  for (const { node } of allEntries(schema)) expect(node.description).toMatch(/^\S.{8,110}\.$/);
  expect(schema.description).toMatch(/\.$/);
});
