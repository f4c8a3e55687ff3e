import { describe, expect, test } from "vitest";
import { parseArguments } from "../../src/commands/arguments.ts";
import { helpText } from "../../src/commands/help.ts";
import { commandNames, optionsOf } from "../../src/commands/options.ts";
import { nodeAt } from "../../src/config/definition.ts";
import { schema } from "../../src/config/schema.ts";
import { splitPath } from "../../src/config/written.ts";

const parse = (line: string) => parseArguments(line.split(" ").filter((word) => word !== ""));
const invocation = (line: string) => {
  const parsed = parse(line);
  return parsed.ok ? parsed.invocation : parsed.message;
};

describe("start and check", () => {
  test("turn shorthands and --set into overrides, in the order given", () => {
    const at = (option: string) => ({ kind: "command line", option });
    expect(
      invocation("start --config a.yaml --port 80 --set policies[0].limit=10 --upstream=http://h --port 81"),
    ).toEqual({
      command: "start",
      args: {
        file: "a.yaml",
        overrides: [
          { path: ["listen", "port"], text: "80", at: at("--port") },
          { path: ["policies", "0", "limit"], text: "10", at: at("--set") },
          { path: ["upstream", "url"], text: "http://h", at: at("--upstream") },
          { path: ["listen", "port"], text: "81", at: at("--port") },
        ],
      },
    });
  });

  test("keep every = of a value after the first", () => {
    expect(invocation("check --set auth.realm=a=b")).toMatchObject({
      args: { overrides: [{ path: ["auth", "realm"], text: "a=b" }] },
    });
  });

  test("leave the choice of the file open without --config", () => {
    expect(invocation("check")).toEqual({ command: "check", args: { file: undefined, overrides: [] } });
  });

  test("have shorthands for keys that exist", () => {
    const keys = Object.values(optionsOf("start")).flatMap(({ key }) => (key === undefined ? [] : [key]));
    expect(keys).toEqual(["upstream.url", "listen.host", "listen.port", "admin.host", "admin.port"]);
    for (const key of keys) expect(nodeAt(schema, splitPath(key))?.kind).toBe("leaf");
  });
});

test.each([
  ["demo", { command: "demo", args: { port: 8080, adminPort: 9464, isQuiet: false } }],
  ["demo --quiet", { command: "demo", args: { port: 8080, adminPort: 9464, isQuiet: true } }],
  ["demo --port 0 --admin-port=9", { command: "demo", args: { port: 0, adminPort: 9, isQuiet: false } }],
  ["token", { command: "token", args: { scopes: [], expiresInMs: null, admin: null } }],
  [
    "token --name partner-a",
    { command: "token", args: { name: "partner-a", scopes: [], expiresInMs: null, admin: null } },
  ],
  [
    "token --scopes read,export --expires 90d",
    { command: "token", args: { scopes: ["read", "export"], expiresInMs: 90 * 86_400_000, admin: null } },
  ],
  ["finance-backend", { command: "finance-backend", args: { host: "127.0.0.1", port: 3000, database: null } }],
  [
    "finance-backend --host ::1 --port 1 --database f.db",
    { command: "finance-backend", args: { host: "::1", port: 1, database: "f.db" } },
  ],
  ["--help", { command: "help", topic: null }],
  ["-h", { command: "help", topic: null }],
  ["help check", { command: "help", topic: "check" }],
  ["start --port 80 -h", { command: "help", topic: "start" }],
  ["--version", { command: "version" }],
])("%s is understood", (line, expected) => {
  expect(invocation(line)).toEqual(expected);
});

test.each([
  ["", "no command given"],
  ["chek", 'unknown command "chek"; did you mean "check"?'],
  ["finance", 'unknown command "finance"'],
  ["help strat", 'unknown command "strat"; did you mean "start"?'],
  ["--port 80", 'found "--port", expected a command before any option'],
  ["start --prot 80", 'unknown option "--prot"; did you mean "--port"?'],
  ["start --adminport 80", 'unknown option "--adminport"; did you mean "--admin-port"?'],
  ["start --__proto__", 'unknown option "--__proto__"'],
  ["start -x", 'unknown option "-x"'],
  ["start --port", "--port: found no value, expected a number"],
  ["start --config --port 80", "--config: found no value, expected a file"],
  ["start --help=yes", "--help takes no value"],
  ["start gateway.yaml", 'found "gateway.yaml", expected an option'],
  ["start -- --port", 'found "--port", expected an option'],
  ["check --set listen.port", '--set: found no key, expected key.path=value, such as "policies.0.limit=10"'],
  ["check --set =80", '--set: found no key, expected key.path=value, such as "policies.0.limit=10"'],
  ["demo --port eighty", '--port: found "eighty", expected a whole number from 0 to 65535'],
  ["demo --port 65536", '--port: found "65536", expected a whole number from 0 to 65535'],
  ["demo --host ::1", 'unknown option "--host"'],
  ["token --expires 90", '--expires: found "90", expected a duration from 1s to 3650d, such as 90d'],
  ["token --expires 9999d", '--expires: found "9999d", expected a duration from 1s to 3650d, such as 90d'],
  ["token --admin all-ish", '--admin: found "all-ish", expected read or write'],
  ["token --admin read --expires 1d", "--admin: a token of the admin API has neither scopes nor an end"],
  ["token --scopes read,,x", "--scopes: expected scopes joined by commas, such as read,export"],
  [
    "token --name #a",
    '--name: found "#a", expected at most 64 letters, digits, blanks and . _ @ -, beginning with a letter or digit',
  ],
])("%j is refused", (line, message) => {
  expect(parse(line)).toMatchObject({ ok: false, message });
});

test("help names every command, and every option of a command", () => {
  for (const name of commandNames) {
    expect(helpText(null)).toContain(`  ${name} `);
    for (const option of Object.keys(optionsOf(name))) expect(helpText(name)).toContain(`--${option} `);
  }
});
