// docs/policies.md: its recipes are valid as they stand there, and its warnings are those that exist.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { renderConfigError } from "../../src/config/config-error.ts";
import { loadSettings } from "../../src/config/load.ts";
import { policyWarnings, type WarnedSettings } from "../../src/config/warnings.ts";
import type { Policy } from "../../src/core/policy.ts";
import { slidingPolicy } from "../support/policy.ts";
import { read } from "./markdown.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-recipes-"));
afterAll(() => rmSync(folder, { recursive: true }));

const page = read("docs/policies.md");
const recipes = [...page.matchAll(/^\| (.+?) \| `(\{ name: .*\})` \|$/gm)].map(([, want = "", policy = ""]) => ({
  want,
  policy,
}));

test("there are recipes", () => {
  expect(recipes.length).toBeGreaterThan(10);
});

test.each(recipes)("$want", ({ policy }) => {
  const file = join(folder, "headgate.yaml");
  // Beside a policy by client, as the page says of keys that a client can invent.
  writeFileSync(file, `policies:\n  - { name: by-client, limit: 100, window: 60s }\n  - ${policy}\n`);
  const loaded = loadSettings({ file, env: {}, cwd: folder, overrides: [] });
  expect(loaded.ok ? policyWarnings(loaded.settings) : loaded.errors.map(renderConfigError)).toEqual([]);
});

/** They have all the warnings there are. */
const unsound: WarnedSettings[] = [
  { policies: [{ exempt: ["::/0"] }, { key: [{ kind: "token" }] }], enforcement: "on" },
  { policies: [{ mode: "shadow" }], enforcement: "on" },
  { policies: [{ key: [{ kind: "subject" }] }], enforcement: "on", mode: "tokens" },
  { policies: [{ match: { paths: [], methods: ["GET"] } }], enforcement: "on" },
  { policies: [{ rate: { kind: "concurrency" } }, { chargeStatuses: [401] }], enforcement: "shadow" },
].map(({ policies, enforcement, mode = "presence" }) => ({
  enforcement: enforcement === "on" ? "on" : "shadow",
  policies: policies.map((policy) => slidingPolicy({ limit: 1, windowMs: 1_000, ...(policy as Partial<Policy>) })),
  routes: ["/v1/"],
  unmatched: "proxy",
  auth: { mode: mode === "tokens" ? "tokens" : "presence" },
  extAuth: { http: {}, grpc: null },
}));

test("each warning has its row, and no other", () => {
  const section = page.split("## Warnings")[1] ?? "";
  const rows = [...section.matchAll(/^\| `(.+?)` \|/gm)].map(([, text = ""]) => text);
  const patterns = rows.map((row) => new RegExp(row.replaceAll(/[.()]/g, "\\$&").replaceAll("…", ".+")));
  const warnings = unsound.flatMap(policyWarnings);
  for (const [i, row] of rows.entries())
    expect([row, warnings.some((text) => patterns[i]?.test(text))]).toEqual([row, true]);
  for (const text of warnings)
    expect([text, patterns.filter((pattern) => pattern.test(text)).length]).toEqual([text, 1]);
});
