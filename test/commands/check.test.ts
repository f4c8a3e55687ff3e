// A folder of broken configurations, one mistake each (two where the path is that of no file), and in its lines.txt the exact
// lines that `headgate check` answers each with. They are what an operator reads: a change of one changes what is shown.
import { execFile, execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { run } from "../../src/commands/check.ts";
import { packagedConfigFile } from "../../src/config/load.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { testIo } from "./test-io.ts";

const cleanup = useCleanup();

const folder = fileURLToPath(new URL("../config/broken", import.meta.url));

/** What is printed, by file: the lines of lines.txt, where a line about another file stands behind `file > `. */
const messages = new Map<string, string>();
for (const text of readFileSync(join(folder, "lines.txt"), "utf8").trimEnd().split("\n")) {
  const [, file = "", line = text] = /^([^: ]+)(?: > (.*))?/.exec(text) ?? [];
  const before = messages.get(file);
  messages.set(file, before === undefined ? line : `${before}\n${line}`);
}

describe("a broken configuration is refused with exactly these lines", () => {
  test.each([...messages])("%s", async (file, message) => {
    const io = testIo({ cwd: folder });
    expect(await run({ file, overrides: [] }, io)).toBe(78);
    expect(io.errText()).toBe(`${message}\n`);
    expect(io.outText()).toBe("");
  });

  test("every file of the folder has its lines", () => {
    const files = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
    expect(files.toSorted()).toEqual([...messages.keys()].toSorted());
  });
});

test("no line repeats a password, a key in a query or a token", () => {
  for (const message of messages.values()) expect(message).not.toMatch(/hunter2|VkDDbDGps0CC/);
});

test("a line about values that contradict each other says what to change", () => {
  const contradictions = [...messages.values()].filter((message) =>
    /expected (none|false,|the path of a file, since|no second|another|at (most|least) [a-z])/.test(message),
  );
  expect(contradictions.length).toBeGreaterThan(30);
  for (const message of contradictions) expect(message).toMatch(/expected .*; \w+/);
});

test("all mistakes are listed at once, each source in its own words", async () => {
  const io = testIo({ cwd: folder, env: { HEADGATE_ADMIN_PORT: "ninety", HEADGATE_LISTEN_PROT: "80" } });
  const overrides = [
    { path: ["drain", "delay"], text: "5", at: { kind: "command line", option: "--set" } },
    { path: ["listen", "prot"], text: "5", at: { kind: "command line", option: "--set" } },
  ] as const;
  expect(await run({ file: "port-text.yaml", overrides }, io)).toBe(78);
  expect(io.errText().trim().split("\n").toSorted()).toEqual([
    'command line --set: drain.delay: found 5, expected a duration with its unit, such as "5s"',
    'command line --set: listen.prot: unknown key; did you mean "listen.port"?',
    'environment HEADGATE_ADMIN_PORT: admin.port: found "ninety", expected a whole number from 0 to 65535',
    'environment HEADGATE_LISTEN_PROT: unknown variable; did you mean "HEADGATE_LISTEN_PORT"?',
    'port-text.yaml:2:9: listen.port: found "eighty", expected a whole number from 0 to 65535',
  ]);
});

test("mistakes of one kind hide none of another: types, pairs and files are told together", async () => {
  const io = testIo({ cwd: folder, env: { HEADGATE_AUTH_MODE: "tokens", HEADGATE_UPSTREAM_URL: "https://api" } });
  const set = (key: string, text: string) =>
    ({ path: key.split("."), text, at: { kind: "command line", option: `--set ${key}` } }) as const;
  const overrides = [
    set("listen.tls.cert", "nowhere.pem"),
    set("listen.maxConnections", "5"),
    set("auth.tokensFile", "bad-line.txt"),
    set("upstream.tls.ca", "no-digest.txt"),
    set("upstream.tls.key", "nowhere.key"),
  ];
  expect(await run({ file: "port-text.yaml", overrides }, io)).toBe(78);
  expect(io.errText().trim().split("\n")).toEqual([
    messages.get("port-text.yaml"),
    "command line --set listen.maxConnections: listen.maxConnectionsPerPeer: found 1000, expected at most listen.maxConnections (5); lower it, or raise listen.maxConnections",
    "command line --set listen.tls.cert: listen.tls.key: found nothing, expected the path of a file, since listen.tls.cert is set; name its private key, or remove listen.tls.cert",
    "command line --set upstream.tls.key: upstream.tls.cert: found nothing, expected the path of a file, since upstream.tls.key has one; name it, or remove upstream.tls.key",
    messages.get("tokens-file-bad-line.yaml"),
    "command line --set listen.tls.cert: listen.tls.cert: nowhere.pem: cannot be read: no such file",
    "command line --set upstream.tls.ca: upstream.tls.ca: no-digest.txt: found no certificate, expected one or more in PEM",
    "command line --set upstream.tls.key: upstream.tls.key: nowhere.key: cannot be read: no such file",
  ]);
});

test("a good configuration is named and shown with what is in effect", async () => {
  const io = testIo({ env: { HEADGATE_LISTEN_PORT: "0", HEADGATE_ROUTES: "/v3/" } });
  expect(await run({ file: undefined, overrides: [] }, io)).toBe(0);
  const lines = io.outText().split("\n");
  expect(lines[0]).toBe(`${packagedConfigFile}: ok`);
  expect(lines.find((line) => line.startsWith("listen: "))).toMatch(
    /^listen: \{ host: 0\.0\.0\.0, port: 0, proxyProtocol: false, proxyScheme: http, maxConnections: 10000, .*\}$/,
  );
  expect(lines).toContain("routes: [ /v3/ ]");
  expect(lines).toContain("policies: [ { name: per-ip, limit: 100, window: 60s } ]");
  expect(io.errText()).toBe("");
});

test("what a terminal would obey is printed as its number", async () => {
  const io = testIo({ env: { HEADGATE_COUNTERS_SNAPSHOT_PATH: "/gone\u009b31m/\u202ecounters" } });
  expect(await run({ file: undefined, overrides: [] }, io)).toBe(0);
  expect(io.outText()).toContain("/gone\\u{9b}31m/\\u{202e}counters");
  expect(io.errText()).toContain("there is no folder /gone\\u{9b}31m,");
  expect(io.outText() + io.errText()).not.toMatch(/[\u009b\u202e]/);
});

test("names of listed tokens are shown, and no other value that may be a secret", async () => {
  const place = scratchFolder(cleanup);
  writeFileSync(join(place, "tokens"), `${"ab".repeat(32)}  # acme\n`);
  const overrides = ["token: acme", `token: ${"ab".repeat(32)}`, "token: acne", "header: acme"];
  const yaml = [
    "auth: { mode: tokens, tokensFile: tokens }",
    'policies: [{ name: a, limit: 9, window: 1s, key: [token, "header:x-key"], overrides: [',
    ...overrides.map((override) => `  { ${override}, limit: 5 },`),
    "  ]}]",
  ];
  writeFileSync(join(place, "c.yaml"), yaml.join("\n"));
  const io = testIo({ cwd: place });
  expect(await run({ file: "c.yaml", overrides: [] }, io)).toBe(0);
  const shown = ["token: acme", 'token: "***"', 'token: "***"', 'header: "***"'];
  const expected = shown.map((override) => `{ ${override}, limit: 5 }`).join(", ");
  expect(io.outText()).toContain(`overrides: [ ${expected} ]`);
});

test("a place where no snapshot can be written is a warning, since the gateway may run elsewhere", async () => {
  const place = scratchFolder(cleanup);
  const warningOf = async (path: string): Promise<string> => {
    const io = testIo({ env: { HEADGATE_COUNTERS_SNAPSHOT_PATH: path }, cwd: place });
    expect(await run({ file: undefined, overrides: [] }, io)).toBe(0);
    return io.errText();
  };
  const warning = (flaw: string) => `warning: counters.snapshot.path: ${flaw}, so no snapshot can be written here\n`;
  expect(await warningOf("counters")).toBe("");
  expect(await warningOf("missing/counters")).toBe(warning(`there is no folder ${join(place, "missing")}`));
  expect(await warningOf(place)).toBe(warning(`${place} is a folder`));
  writeFileSync(join(place, "file"), "");
  const noFolder = `the folder ${join(place, "file")} cannot be written to (ENOTDIR)`;
  expect(await warningOf("file/counters")).toBe(warning(noFolder));
});

test("the command itself exits 78 with the line on standard error", async () => {
  const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  const ran = promisify(execFile)(process.execPath, [main, "check", "--config", "port-text.yaml"], { cwd: folder });
  await expect(ran).rejects.toMatchObject({ code: 78, stdout: "", stderr: `${messages.get("port-text.yaml")}\n` });
});

test.each([
  ["--config", ""],
  ["--set=auth.mode=tokens --set=auth.tokensFile", "command line --set: auth.tokensFile: "],
])("a pipe where a file is expected (%s) is refused, not waited for", async (option, place) => {
  const pipe = join(scratchFolder(cleanup), "pipe");
  execFileSync("mkfifo", [pipe]);
  const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  const args = [main, "check", ...`${option}=${pipe}`.split(" ")];
  const ran = promisify(execFile)(process.execPath, args, { timeout: 10_000 });
  await expect(ran).rejects.toMatchObject({
    code: 78,
    stderr: `${place}${pipe}: cannot be read: it is no regular file\n`,
  });
});
