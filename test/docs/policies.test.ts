// docs/policies.md: its recipes are valid as they stand there. docs/warnings.md: its warnings are those that exist.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { configurationWarnings } from "../../src/config/warnings.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { overrideNames } from "../../src/core/method.ts";
import { calendarPeriods } from "../../src/core/policy.ts";
import type { Settings } from "../../src/core/settings.ts";
import { scratchFolder } from "../support/scratch.ts";
import { read } from "./markdown.ts";

const folder = scratchFolder(afterAll);

function settingsOf(yaml: string): Settings {
  const file = join(folder, "headgate.yaml");
  writeFileSync(file, yaml);
  const loaded = loadSettings({ file, env: {}, cwd: folder, overrides: [] });
  return loaded.ok ? loaded.settings : expect.fail(loaded.errors.map(renderConfigError).join("\n"));
}

const page = read("docs/policies.md");
const recipes = [...page.matchAll(/^\| (.+?) \| `(\{ name: .*\})` \|$/gm)].map(([, want = "", policy = ""]) => ({
  want,
  policy,
}));

test("each period of the calendar is named", () => {
  const [, periods = ""] = /^\| `limit` and `per` \((.*?)\) \|/m.exec(page) ?? [];
  expect(periods).toBe(calendarPeriods.map((per) => `\`${per}\``).join(", "));
});

test("each header that may name another method is in the table of these", () => {
  const [, table = ""] = /^## Other ways to name the path or the method$(.*?)^An /ms.exec(read("docs/paths.md")) ?? [];
  const named = new Set([...table.matchAll(/`(x-[a-z-]*method[a-z-]*)`/gi)].map(([, name = ""]) => name.toLowerCase()));
  expect([...named].sort()).toEqual([...overrideNames].sort());
});

test("there are recipes", () => {
  expect(recipes.length).toBeGreaterThan(10);
});

test.each(recipes)("$want", ({ policy }) => {
  // Beside a policy by client, as the page says of keys that a client can invent, with verified tokens, as it says of
  // requests that have none, and with what keeps long windows.
  const settings = settingsOf(
    `auth: { mode: tokens, tokensFile: t }\ncounters: { snapshot: { path: c } }\npolicies:\n  - { name: by-client, limit: 1000, window: 60s }\n  - ${policy}\n`,
  );
  expect(configurationWarnings(settings)).toEqual([]);
});

/** They have all the warnings there are, but for those of a shared store. */
const unsound = [
  "policies: [{ name: a, limit: 1, window: 1s, exempt: ['::/0'] }, { name: b, limit: 1, window: 1s, key: [token] }]",
  "policies: [{ name: a, limit: 1, window: 1s, mode: shadow }]",
  "auth: { mode: tokens, tokensFile: t }\npolicies: [{ name: a, limit: 1, window: 1s, key: [subject] }]",
  "policies: [{ name: a, limit: 1, window: 1s, match: { methods: [GET] } }]",
  "policies: [{ name: a, concurrency: 1 }]\nenforcement: shadow\nextAuth: { trustedCallers: [::/0], http: { enabled: true } }",
  "policies: [{ name: a, limit: 1, window: 1s, key: [] }, { name: b, limit: 1, window: 1s, key: [token], charge: { statuses: [401] } }]",
  "policies: [{ name: a, limit: 1, window: 1s }, { name: b, limit: 1, window: 1s, overrides: [{ client: 192.0.2.1, limit: 2 }] }]",
  "clientAddress: { ipv6Prefix: 65, header: forwarded }",
  "policies: [{ name: a, limit: 1000000000, window: 60s }, { name: b, limit: 1, per: month }]",
  "unmatched: proxy\nclientAddress: { trustedProxies: [0.0.0.0/1] }\nlisten: { proxyProtocol: true }",
  "upstream: { url: 'https://a', tls: { insecureSkipVerify: true } }",
  "{ routes: [/v1/, /v2/, /api/], readiness: { path: /api/up } }",
];

test("each warning has its row, and no other", () => {
  const rows = [...read("docs/warnings.md").matchAll(/^\| `(.+?)` \|/gm)].map(([, text = ""]) => text);
  const patterns = rows.map((row) => new RegExp(row.replaceAll(/[.()]/g, "\\$&").replaceAll("…", ".+")));
  const warnings = unsound.flatMap((yaml) => configurationWarnings(settingsOf(yaml)));
  for (const [i, row] of rows.entries())
    expect([row, warnings.some((text) => patterns[i]?.test(text))]).toEqual([row, true]);
  for (const text of warnings)
    expect([text, patterns.filter((pattern) => pattern.test(text)).length]).toEqual([text, 1]);
});
