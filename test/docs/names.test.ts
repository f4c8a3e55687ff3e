// The names that a page tells a reader to write are there: keys of the configuration, with values that they take, variables of
// the environment, and metrics.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { nodeAt } from "../../src/config/definition.ts";
import { loadSettings } from "../../src/config/load.ts";
import { schema } from "../../src/config/schema.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { codeBlocks, markdownFiles, read } from "./markdown.ts";

const pages = markdownFiles().filter((path) => path.startsWith("docs/") || path === "README.md");
/** Code in the text, without that of the calls of the API, whose fields have such names, too. */
const inlineOf = (path: string): string[] =>
  [
    ...read(path)
      .replace(/<!-- all calls: .*/s, "")
      .replace(/^ *```.*?^ *```/gms, "")
      .matchAll(/`([^`]+)`/g),
  ].map(([, text = ""]) => text.replace(/\s+/g, " "));

interface Written {
  readonly path: string;
  readonly text: string;
  readonly key: readonly string[];
  /** Undefined: the key alone. */
  readonly value: string | undefined;
}

const written: Written[] = pages.flatMap((path) =>
  inlineOf(path).flatMap((text) => {
    const [, name = "", value] = /^([a-z][A-Za-z0-9]*(?:\.[A-Za-z0-9]+)*)(?:: (.+))?$/.exec(text) ?? [];
    const key = name.split(".");
    const [first = "", second] = key;
    // A policy is named as `policies.NAME`. A section alone, or `store`, is a word.
    const isKey =
      Object.hasOwn(schema.keys, first) && (second !== undefined || value !== undefined) && first !== "policies";
    return isKey && !value?.includes("…") ? [{ path, text, key, value }] : [];
  }),
);

test("there are keys", () => {
  expect(written.length).toBeGreaterThan(200);
  expect(written.filter(({ value }) => value !== undefined).length).toBeGreaterThan(40);
});

test("each key of the configuration that a page names is one, and takes the value that it is given there", () => {
  const different = new Map(written.map((one) => [one.text, one])).values();
  const wrong = [...different].filter(({ key, value }) => {
    const node = nodeAt(schema, key);
    if (node === undefined || value === undefined) return node === undefined;
    if (node.kind === "leaf") return !(node.isNullable && value === "null") && node.parse(parse(value)) === undefined;
    const at = { kind: "command line", option: "--set" } as const;
    return !loadSettings({ env: {}, cwd: "/", overrides: [{ path: key, text: value, at }] }).ok;
  });
  expect(wrong).toEqual([]);
});

test("each variable of the environment that a page names is one", () => {
  const files = [...pages, "deploy/compose.yaml", "deploy/compose.replicas.yaml", "Dockerfile"];
  const names = files.flatMap((path) => read(path).match(/\bHEADGATE_[A-Z0-9_]+\b(?![*…])/g) ?? []);
  const env = Object.fromEntries(names.filter((name) => name !== "HEADGATE_CONFIG").map((name) => [name, "null"]));
  expect(Object.keys(env).length).toBeGreaterThan(80);
  const loaded = loadSettings({ env, cwd: "/", overrides: [] });
  const errors = loaded.ok ? [] : loaded.errors.map(renderConfigError);
  expect(errors.filter((error) => error.includes("unknown"))).toEqual([]);
});

test("each metric that a page names is one of docs/metrics.md", () => {
  const known = new Set(read("docs/metrics.md").match(/\bheadgate_[a-z0-9_]+/g));
  const wrong = pages
    .filter((path) => !path.startsWith("docs/ingress/"))
    .flatMap((path) =>
      inlineOf(path)
        .flatMap((text) => text.match(/^headgate_[a-z0-9_]+(?=\{|$)/)?.[0] ?? [])
        .filter((name) => !known.has(name.replace(/_(bucket|sum|count)$/, "")) && !known.has(name))
        .map((name) => `${path}: ${name}`),
    );
  expect(wrong).toEqual([]);
});

test("configuration.md: the errors are those that it shows, and the command line replaces the environment, which replaces the file", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-names-"));
  try {
    const load = (yaml: string, env: Record<string, string>, path?: string[]) => {
      writeFileSync(join(folder, "my.yaml"), yaml);
      const at = { kind: "command line", option: "--set" } as const;
      const overrides = path === undefined ? [] : [{ path, text: "30", at }];
      return loadSettings({ file: "my.yaml", env, cwd: folder, overrides });
    };
    const wrong = load("listen:\n  port: eighty\nupstrem: {}\n", {});
    const shown = codeBlocks("docs/configuration.md", "").find((block) => block.includes("my.yaml:")) ?? "";
    expect(wrong.ok ? [] : wrong.errors.map(renderConfigError)).toEqual(shown.trimEnd().split("\n"));
    const limit = (loaded: ReturnType<typeof load>) =>
      loaded.ok ? loaded.settings.policies.map((one) => one.limit) : [];
    const yaml = "policies: [{ name: a, limit: 10, window: 60s }]\n";
    const env = { HEADGATE_POLICIES_0_LIMIT: "20" };
    expect([limit(load(yaml, {})), limit(load(yaml, env))]).toEqual([[10], [20]]);
    expect(limit(load(yaml, env, ["policies", "0", "limit"]))).toEqual([30]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
