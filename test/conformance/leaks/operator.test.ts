// Secrets in the wrong place: in a configuration that is refused, in a tokens file that holds tokens, in what somebody
// asks of the admin listener. What is said about it names the place and never the secret.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parseArguments } from "../../../src/commands/arguments.ts";
import { run as check } from "../../../src/commands/check.ts";
import { run as start } from "../../../src/commands/start.ts";
import { type TestIo, testIo } from "../../commands/test-io.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { startTestGateway } from "../../support/gateway.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { deadUrl } from "../../support/unavailable.ts";
import { leaksOf, mark } from "./secrets.ts";

const cleanup = useCleanup();
const digest = "a".repeat(64);

function folder(): string {
  const path = scratchFolder(onTestFinished);
  return path;
}

interface Mistake {
  readonly name: string;
  /** The configuration file. */
  readonly yaml?: string;
  readonly env?: Record<string, string>;
  readonly overrides?: readonly string[];
  /** The tokens file. */
  readonly tokens?: string;
  /** Where it says the mistake is. */
  readonly place: RegExp;
}

const mistakes: readonly Mistake[] = [
  {
    name: "credentials in the upstream's URL",
    yaml: `upstream:\n  url: http://user:${mark}@api.test\n`,
    place: /:2:8: upstream\.url: /,
  },
  {
    name: "credentials with an @ and a / in them",
    yaml: `upstream:\n  url: "http://user:a@b/${mark}@api.test"\n`,
    place: /:2:8: upstream\.url: /,
  },
  {
    name: "a key in the upstream's query",
    yaml: `upstream:\n  url: http://api.test/?key=${mark}\n`,
    place: /:2:8: upstream\.url: /,
  },
  {
    name: "credentials in the environment",
    env: { HEADGATE_UPSTREAM_URL: `http://${mark}:x@api.test` },
    place: /^environment HEADGATE_UPSTREAM_URL: /,
  },
  {
    name: "credentials on the command line",
    overrides: [`upstream.url=http://user:${mark}@api.test`],
    place: /^command line --set: upstream\.url: /,
  },
  {
    name: "a password under a key that is none",
    yaml: `upstream:\n  password: ${mark}\n`,
    place: /:2:3: upstream\.password: unknown key/,
  },
  {
    name: "a token where there is no key for one",
    yaml: `auth:\n  token: ${mark}\n`,
    place: /:2:3: auth\.token: unknown key/,
  },
  {
    name: "a variable that is none",
    env: { HEADGATE_AUTH_TOKEN: mark },
    place: /^environment HEADGATE_AUTH_TOKEN: unknown variable/,
  },
  {
    name: "a line that is no YAML, with a secret in it",
    yaml: `auth:\n  realm: "x\n  token: ${mark}\n`,
    place: /\.yaml:\d+:\d+: /,
  },
  {
    name: "a tab before a secret",
    yaml: `auth:\n\ttoken: ${mark}\n`,
    place: /\.yaml:\d+:\d+: /,
  },
  { name: "a token in the tokens file", tokens: `${digest}\n${mark}-token\n`, place: /tokens\.txt:2: found 12 char/ },
  {
    name: "a token with its name in the tokens file",
    tokens: `alice ${mark}-token # ${mark}\n`,
    place: /tokens\.txt:1: found /,
  },
  { name: "a tokens file of comments", tokens: `# ${mark}\n`, place: /tokens\.txt:1: found no digest/ },
];

const build = { version: "0.0.0", nodeVersion: "0" };

function run(args: readonly string[], io: TestIo): Promise<number> {
  const parsed = parseArguments(args);
  if (!parsed.ok) throw new Error(parsed.message);
  const { invocation } = parsed;
  if (invocation.command === "check") return check(invocation.args, io);
  if (invocation.command === "start") return start(invocation.args, io, build);
  throw new Error("neither check nor start");
}

test.each(["check", "start"])("%s names the place of every mistake and never the secret in it", async (command) => {
  for (const { name, yaml = "", env = {}, overrides = [], tokens, place } of mistakes) {
    const cwd = folder();
    const file = join(cwd, "my.yaml");
    const withTokens = tokens === undefined ? "" : "auth: {mode: tokens, tokensFile: tokens.txt}\n";
    writeFileSync(file, `${yaml}${withTokens}` || "{}");
    writeFileSync(join(cwd, "tokens.txt"), tokens ?? "");
    const io = testIo({ env, cwd });
    const set = overrides.flatMap((text) => ["--set", text]);
    expect(await run([command, "--config", file, ...set], io), name).toBe(78);
    const text = io.errText().replaceAll(cwd, ".");
    expect(text, name).toMatch(place);
    expect(text, name).not.toContain(mark);
    expect(leaksOf(text, ["an address", "a path of a file"]), name).toEqual([]);
    expect(io.outText(), name).toBe("");
  }
});

test("a tokens file that goes wrong or away under way: the log says so, and neither its content nor its place", async () => {
  const cwd = folder();
  const tokensFile = join(cwd, "tokens.txt");
  writeFileSync(tokensFile, `${digest}\n`);
  const auth = { mode: "tokens", tokensFile } as const;
  const gateway = cleanup(await startTestGateway({ upstreamUrl: deadUrl, overrides: { auth } }));
  const complaints = (): string[] =>
    gateway.logLines.filter(({ level }) => level === "error").map((line) => JSON.stringify(line));
  writeFileSync(tokensFile, `${digest}\nalice ${mark}-token\n`);
  await eventually("the wrong line is told", () => complaints().length === 1);
  expect(complaints()[0]).toContain('"line":2');
  rmSync(tokensFile);
  await eventually("that it is away is told", () => complaints().length === 2);
  expect(complaints()[1]).toContain("ENOENT");
  for (const complaint of complaints()) {
    expect(leaksOf(complaint, ["a code of the system"])).toEqual([]);
    expect(complaint).not.toContain(cwd);
    expect(complaint).not.toContain(digest);
  }
});

const asked = [
  `GET /metrics?token=${mark} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${mark}\r\nConnection: close\r\n\r\n`,
  `GET /${mark}?${mark} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
  `GET /%zz${mark} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
  `GET /metrics HTTP/1.1\r\nCookie: ${mark}\r\nConnection: close\r\n\r\n`,
  `POST /readyz HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nConnection: close\r\n\r\n${mark}`,
  `GET /metrics HTTP/1.1\r\nHost: a\r\nX: ${mark}${"x".repeat(17_000)}\r\n\r\n`,
  `${mark}\r\n\r\n`,
];

test("the admin listener gives nothing back of what it is asked with, and logs nothing of it", async () => {
  const gateway = cleanup(await startTestGateway({ upstreamUrl: deadUrl }));
  const before = gateway.logLines.length;
  for (const bytes of asked) {
    const client = cleanup(new RawConnection(gateway.admin.port)).write(bytes);
    await within("the connection ends", client.closed);
    expect(client.rest, bytes).toMatch(/^HTTP\/1\.1 \d{3} /);
    expect(leaksOf(client.rest), bytes).toEqual([]);
  }
  expect(gateway.logLines.slice(before)).toEqual([]);
});
