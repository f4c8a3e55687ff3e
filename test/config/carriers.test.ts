// What the carriers of a configuration make of it: a reader of YAML 1.1 (Helm), files of variables, editors, mounts.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { mountedAlone } from "../../src/config/mounts.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { scratchFolder } from "../support/scratch.ts";

function load(written: string | Buffer, env: Record<string, string> = {}) {
  const cwd = scratchFolder(onTestFinished);
  writeFileSync(join(cwd, "c.yaml"), written);
  return loadSettings({ file: "c.yaml", env, cwd, overrides: [] });
}

function errorsOf(written: string | Buffer, env: Record<string, string> = {}): readonly string[] {
  const loaded = load(written, env);
  return loaded.ok ? [] : loaded.errors.map(renderConfigError);
}

test("false and true are off and on where these are words of the key", () => {
  const loaded = load(
    "auth: { mode: false, rules: [{ paths: [/v1/login], mode: false }] }\nlog: { subject: false }\nenforcement: true\n",
  );
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  const { auth, log, enforcement } = loaded.settings;
  expect([auth.mode, auth.rules[0]?.mode, log.subject, enforcement]).toEqual(["off", "off", "off", "on"]);
});

test.each([
  ["auth: { mode: true }", ["c.yaml:1:15: auth.mode: found true, expected off, presence or tokens"]],
  ["enforcement: false", ["c.yaml:1:14: enforcement: found false, expected on or shadow"]],
  ["unmatched: false", ["c.yaml:1:12: unmatched: found false, expected reject or proxy"]],
  ["auth: { realm: true }", [expect.stringMatching(/^c\.yaml:1:16: auth\.realm: found true, expected .*, in quotes$/)]],
])("%s: elsewhere they are errors", (yaml, expected) => {
  expect(errorsOf(yaml)).toEqual(expected);
});

test.each(["0100", "-010", "0o17", "00"])(
  "%s, a number that the versions of YAML read differently, is an error",
  (number) => {
    expect(errorsOf(`policies: [{ name: a, window: 1s, limit: ${number} }]`)[0]).toBe(
      `c.yaml:1:42: policies.0.limit: found ${number}, expected a number without a leading zero, which the versions of YAML read differently`,
    );
  },
);

test("1e+06, as Helm writes a million, is a million; 0 and 0.5 are no errors of form", () => {
  const loaded = load("policies: [{ name: a, window: 1s, limit: 1e+06 }]\nlisten: { port: 0 }");
  expect(loaded.ok && loaded.settings.policies[0]?.limit).toBe(1_000_000);
  expect(errorsOf("listen: { port: 0.5 }")).toEqual([
    "c.yaml:1:17: listen.port: found 0.5, expected a whole number from 0 to 65535",
  ]);
});

test.each([
  ["off\r", "off"],
  [" off ", "off"],
  ["false", "off"],
])("the variable %j is read without blanks and line ends around it", (text, mode) => {
  const loaded = load("{}", { HEADGATE_AUTH_MODE: text });
  expect(loaded.ok && loaded.settings.auth.mode).toBe(mode);
});

test.each(['"off"', "'off'"])("the quotes in the variable %s are named", (text) => {
  expect(errorsOf("{}", { HEADGATE_AUTH_MODE: text })).toEqual([
    "environment HEADGATE_AUTH_MODE: auth.mode: found a value in quotes, expected one without (docker's --env-file and the lists of compose files keep them)",
  ]);
});

// A compose file writes HEADGATE_AUTH: ${AUTH}, and nobody has set AUTH: the keys of the file must not become the defaults.
test.each(["", " ", "null", "{}"])(
  "a section that the variable %j gives as a whole keeps the keys of the file",
  (text) => {
    const file =
      "auth: { mode: tokens, tokensFile: t }\nlisten: { tls: { cert: c, key: k, clientCa: ca } }\npolicies: [{ name: a, limit: 1, window: 1s, match: { paths: [/v1/a] } }]";
    const names = ["AUTH", "LISTEN", "LISTEN_TLS", "POLICIES_0", "POLICIES_0_MATCH"];
    const loaded = load(file, Object.fromEntries(names.map((name) => [`HEADGATE_${name}`, text])));
    if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
    const { auth, listen, policies } = loaded.settings;
    expect([auth.mode, listen.tls?.clientCa !== null, policies[0]?.match.paths]).toEqual(["tokens", true, ["/v1/a"]]);
  },
);

test("a leading zero in a variable is an error, too", () => {
  expect(errorsOf("{}", { HEADGATE_POLICIES_0_LIMIT: "0100" })).toEqual([
    'environment HEADGATE_POLICIES_0_LIMIT: policies.0.limit: found "0100", expected a whole number from 1 to 1000000000, without a leading zero',
  ]);
});

test("a file in UTF-16 is named so; a byte order mark of UTF-8 and line ends of Windows are nothing special", () => {
  const text = "\uFEFFlisten: { port: 1 }\r\n";
  expect(errorsOf(Buffer.from(text, "utf16le"))).toEqual(["c.yaml: found UTF-16, expected text in UTF-8"]);
  expect(errorsOf(text)).toEqual([]);
});

test("a file that is a mount of its own is found, behind a link and with blanks in its path, and one in a mounted folder is not", () => {
  const mounts = [
    "1 0 8:1 / / rw - ext4 /dev/vda rw",
    "2 1 8:1 /a.yaml /etc/headgate.yaml ro - ext4 /dev/vda rw",
    "3 1 8:1 /b /etc/a\\040folder/b.yaml ro shared:1 - ext4 /dev/vda rw",
    "4 1 8:1 /c /etc/conf ro - ext4 /dev/vda rw",
  ].join("\n");
  const files = ["/etc/headgate.yaml", "/etc/a folder/b.yaml", "/etc/conf/c.yaml"];
  expect(mountedAlone(files, mounts)).toEqual(files.slice(0, 2));
  expect(mountedAlone(files, "")).toEqual([]);
});
