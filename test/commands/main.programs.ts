// The process itself: exit codes and streams.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { adminTokensFile } from "../../src/admin/admin-tokens.ts";
import { parseTokens } from "../../src/auth/tokens-file.ts";
import { signalExitCodes } from "../../src/commands/io.ts";

const root = new URL("../../", import.meta.url);

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function headgate(...args: string[]): Promise<Ran> {
  const main = fileURLToPath(new URL("src/main.ts", root));
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code), out, err });
    });
  });
}

test("--version prints the package's version", async () => {
  const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { version: string };
  expect(await headgate("--version")).toEqual({ code: 0, out: `headgate ${version}\n`, err: "" });
});

test("--help prints to standard output and exits 0", async () => {
  const { code, out, err } = await headgate("check", "--help");
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toMatch(/^usage: headgate check \[options\]\n/);
});

test("a wrong command line exits 64 and says where to look", async () => {
  expect(await headgate("start", "--prot", "80")).toEqual({
    code: 64,
    out: "",
    err: 'headgate start: unknown option "--prot"; did you mean "--port"?\nTry "headgate start --help".\n',
  });
});

test("a command that asks a gateway says that none is there, and exits 69; completions are printed", async () => {
  expect(await headgate("status", "--socket", "/nowhere/s")).toEqual({
    code: 69,
    out: "",
    err: expect.stringMatching(/^headgate: the gateway at \/nowhere\/s cannot be asked: there is no such socket;/),
  });
  expect(await headgate("rules", "remove", "a/b")).toMatchObject({
    code: 64,
    err: expect.stringMatching(/^headgate rules: found "a\/b", expected .*\nTry "headgate rules --help"\.\n$/),
  });
  expect(await headgate("completions", "bash")).toMatchObject({ code: 0, out: expect.stringContaining("_headgate()") });
});

test("token prints a token and the digest it is known by, a new one each time", async () => {
  const [one, other] = await Promise.all([headgate("token"), headgate("token")]);
  const [, token = "", digest] = /^token: {2}([\w-]{43})\nsha256: ([0-9a-f]{64})\n$/.exec(one.out) ?? [];
  expect(createHash("sha256").update(token).digest("hex")).toBe(digest);
  expect(one.err).toContain("Only the digest goes into the tokens file.");
  expect(other.out).not.toBe(one.out);
});

test("token --name prints the line of the tokens file, too", async () => {
  const { out } = await headgate("token", "--name", "Partner A");
  const [, digest, line = ""] = /^token: .*\nsha256: (.*)\nline: {3}(.*)\n$/.exec(out) ?? [];
  expect(parseTokens(line)).toMatchObject({
    tokens: [{ digest, name: "Partner A", scopes: [], endsMs: null }],
    errors: [],
  });
  const whole = await headgate("token", "--name", "alice", "--expires", "90d", "--scopes", "read,export");
  const { tokens } = parseTokens(/^line: {3}(.*)$/m.exec(whole.out)?.[1] ?? "");
  expect(tokens).toMatchObject([{ name: "alice", scopes: ["read", "export"] }]);
  expect((tokens[0]?.endsMs ?? 0) - Date.now()).toBeGreaterThan(89.9 * 86_400_000);
  expect((tokens[0]?.endsMs ?? 0) - Date.now()).toBeLessThan(90.1 * 86_400_000);
});

test("token --admin prints the line of the tokens file of the admin API", async () => {
  const { out } = await headgate("token", "--admin", "write", "--name", "ops");
  const [, token = "", line = ""] = /^token: {2}(.*)\nsha256: .*\nline: {3}(.*)\n$/.exec(out) ?? [];
  const reading = adminTokensFile("admin.txt").parse({ "admin.tokensFile": line }, true);
  expect(reading.ok && reading.value.find(token)).toEqual({ name: "ops", role: "write" });
});

test("a second signal exits with 128 plus its number, as a shell reports it", () => {
  for (const [signal, code] of Object.entries(signalExitCodes)) {
    expect([signal, code]).toEqual([signal, 128 + constants.signals[signal as NodeJS.Signals]]);
  }
});
