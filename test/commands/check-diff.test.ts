// `headgate check --diff`: the lines that say what a reload would change, and the exit code that says whether it would.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseArguments } from "../../src/commands/arguments.ts";
import { runDiff } from "../../src/commands/check.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { testIo } from "./test-io.ts";

const cleanup = useCleanup();

async function diff(from: string, to: string, env: Record<string, string> = {}, tokens: string | null = null) {
  const folder = scratchFolder(cleanup);
  writeFileSync(join(folder, "old.yaml"), from);
  writeFileSync(join(folder, "new.yaml"), to);
  if (tokens !== null) writeFileSync(join(folder, "tokens"), `${tokens}\n`);
  const io = testIo({ cwd: folder, env });
  const code = await runDiff({ files: ["old.yaml", "new.yaml"], overrides: [] }, io);
  return { code, lines: io.outText().split("\n").slice(0, -1), errors: io.errText() };
}

test.each<[claim: string, from: string, to: string, lines: string[]]>([
  [
    "the same value in other words is no change",
    "timeouts: { head: 60s }",
    "timeouts: { head: 1m }",
    ["nothing would change"],
  ],
  ["a default that is written is no change", "{}", "routes: [/v1/, /v2/]", ["nothing would change"]],
  [
    "a key, a list, and a key with a default",
    "upstream: { url: http://a }",
    "upstream: { url: http://b }\nroutes: [/v2/]\nunmatched: proxy",
    ["upstream.url: http://a → http://b", "routes: [/v1/, /v2/] → [/v2/]", "unmatched: reject → proxy"],
  ],
  [
    "what needs a restart",
    "{}",
    "listen: { port: 9090, proxyProtocol: true }\nadmin: { host: ::1 }\ncounters: { memory: 64MiB }",
    [
      "listen.port: 8080 → 9090 (needs a restart)",
      "listen.proxyProtocol: false → true (needs a restart)",
      "admin.host: 127.0.0.1 → ::1 (needs a restart)",
      "counters.memory: 32MiB → 64MiB (needs a restart)",
    ],
  ],
  [
    "policies by name, wherever they stand in the list",
    "policies: [{ name: a, limit: 1, window: 1s }, { name: b, limit: 2, window: 1s }]",
    "policies: [{ name: c, limit: 3, window: 1s }, { name: b, limit: 5, window: 1s }]",
    [
      "policies.a: removed; what it has counted is forgotten",
      "policies.b.limit: 2 → 5",
      "policies.c: added: {name: c, limit: 3, window: 1s}",
      "policies.c: starts empty, because its name, kind or key is new",
    ],
  ],
  [
    "a policy that is removed, and one that is new, with a shared store, which goes on counting",
    "counters: { store: redis, redis: { url: rediss://store } }\npolicies: [{ name: a, limit: 1, window: 1s }]",
    "counters: { store: redis, redis: { url: rediss://store } }\npolicies: [{ name: b, limit: 1, window: 1s }]",
    [
      "policies.a: removed; what it has counted stays in the store until it expires, and counts if the policy comes back",
      "policies.b: added: {name: b, limit: 1, window: 1s}",
      "policies.b: starts with what the store still has of its name, kind and key, because one of them is new",
    ],
  ],
  [
    "a policy that starts empty, because its key or kind is another",
    "policies: [{ name: a, limit: 1, window: 1s }, { name: b, limit: 2, window: 1s }]",
    "policies: [{ name: a, limit: 1, window: 1s, key: [client, method] }, { name: b, limit: 2, per: day }]",
    [
      "policies.a.key: [client] → [client, method]",
      "policies.b.window: 1s → null",
      "policies.b.per: null → day",
      "policies.a: starts empty, because its name, kind or key is new",
      "policies.b: starts empty, because its name, kind or key is new",
    ],
  ],
  [
    "another order alone",
    "policies: [{ name: a, limit: 1, window: 1s }, { name: b, limit: 2, window: 1s }]",
    "policies: [{ name: b, limit: 2, window: 1s }, { name: a, limit: 1, window: 1s }]",
    ["policies: a, b → b, a"],
  ],
])("%s", async (_, from, to, lines) => {
  const result = await diff(from, to);
  expect(result.lines).toEqual(lines);
  expect(result.code).toBe(0);
});

test("errors of either file are listed, and the exit code is 78", async () => {
  expect(await diff("routes: [v1]\n", "maxBodyBytes: 0\n")).toMatchObject({
    code: 78,
    lines: [],
    errors: expect.stringMatching(/^old\.yaml:1:10: routes\.0: .*\nnew\.yaml:1:15: maxBodyBytes: .*\n$/),
  });
  const tokens = "auth: { mode: tokens, tokensFile: missing }";
  expect(await diff("{}", tokens)).toMatchObject({
    code: 78,
    errors: expect.stringContaining("missing: cannot be read"),
  });
});

test.each(["", "\n", "# no policy any more\n"])("a second file without a key (%j) would be refused", async (to) => {
  expect(await diff("routes: [/v2/]", to)).toMatchObject({
    code: 78,
    lines: [],
    errors: "new.yaml: found no key, expected a configuration; write {} for one with all defaults\n",
  });
});

test("a second file that is {} stands for all defaults", async () => {
  expect(await diff("routes: [/v2/]", "{}")).toMatchObject({ code: 0, lines: ["routes: [/v2/] → [/v1/, /v2/]"] });
});

test("what a reload would warn of, and not what was so before", async () => {
  const policy = (name: string, rest: string): string => `{ name: ${name}, limit: 5, window: 1s${rest} }`;
  const from = `policies: [${policy("a", "")}, ${policy("b", ", exempt: [0.0.0.0/0]")}]`;
  const to = `policies: [${policy("a", ", mode: shadow")}, ${policy("b", ", exempt: [0.0.0.0/0]")}]`;
  expect(await diff(from, to)).toEqual({
    code: 0,
    lines: ["policies.a.mode: enforce → shadow"],
    errors:
      "warning: not all requests under /v1/ and /v2/ are limited: no enforcing policy without charge is about all of them\n",
  });
});

const listed = `${"ab".repeat(32)}  # acme`;
const withToken = (token: string, limit = 5, header = ""): string =>
  [
    "auth: { mode: tokens, tokensFile: tokens }",
    "policies:",
    "  - { name: by-client, limit: 100, window: 60s }",
    `  - { name: a, limit: 9, window: 1s, key: [token, "header:x-key"], overrides: [{ token: ${token}, limit: ${limit} }${header}] }`,
  ].join("\n");

test("names of tokens are shown; digests, values of headers and what is no listed name are not", async () => {
  const from = withToken("acme", 5, ", { header: s3cret, limit: 5 }");
  const to = withToken("acme", 6, ", { header: acme, limit: 5 }");
  expect(await diff(from, to, {}, listed)).toMatchObject({
    code: 0,
    lines: [
      'policies.a.overrides: [{token: acme, limit: 5}, {header: "***", limit: 5}] → [{token: acme, limit: 6}, {header: "***", limit: 5}]',
    ],
  });
  const { lines } = await diff(withToken("ab".repeat(32)), withToken("acne"), {}, listed);
  expect(lines).toEqual(['policies.a.overrides: [{token: "***", limit: 5}] (a value that is not shown has changed)']);
});

test("a value that the environment overrides does not change", async () => {
  const { lines } = await diff("upstream: { url: http://a }", "upstream: { url: http://b }", {
    HEADGATE_UPSTREAM_URL: "http://c",
  });
  expect(lines).toEqual(["nothing would change"]);
});

test.each([
  ["check --diff a.yaml b.yaml --set auth.realm=x", { command: "check-diff", args: { files: ["a.yaml", "b.yaml"] } }],
  ["check --diff=a.yaml b.yaml", { command: "check-diff", args: { files: ["a.yaml", "b.yaml"] } }],
])("%s", (line, invocation) => {
  expect(parseArguments(line.split(" "))).toMatchObject({ ok: true, invocation });
});

test.each([
  ["check --diff a.yaml", "--diff: found one value, expected a file and a file"],
  ["check --diff", "--diff: found no value, expected a file"],
  ["check --diff a.yaml --port 1", "--diff: found one value, expected a file and a file"],
  ["check --diff a b c", 'found "c", expected an option'],
  ["check --diff a b --config c", "--config: found with --diff, expected one of the two"],
  ["start --diff a b", 'unknown option "--diff"'],
])("%s is refused", (line, message) => {
  expect(parseArguments(line.split(" "))).toMatchObject({ ok: false, message });
});
