// Puts each break into a copy of the work tree and runs tests there until one fails: which breaks does a tier find, and which
// test finds it first? By hand, because all of them take hours.
//
//   node test/breaks/run.ts [--ids limits-1,config-2] [--tier test|programs|long] [files or folders of tests]
//   node test/breaks/run.ts --tier check
//
// Without files, the tier `test` tries first the folders near the break and then the whole of `npm test`. A failure counts
// if its file fails again by itself. `check` puts all breaks in at once: they must pass the compiler and the linter.
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { replaceOnce } from "../support/replacement.ts";
import { type Break, breaks, near } from "./breaks.ts";

const root = resolve(import.meta.dirname, "../..");
const configs = { test: "vitest.config.ts", programs: "vitest.programs.config.ts", long: "vitest.long.config.ts" };
/** Of one run of tests. It ends a runner that hangs; each test has a bound of its own. */
const runMinutes = { test: 20, programs: 30, long: 90 };
/** Not copied: their own, or made anew. */
const left = new Set([".git", "node_modules", "dist"].map((name) => join(root, name)));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { ids: { type: "string" }, tier: { type: "string", default: "test" } },
});
const ids = values.ids?.split(",") ?? breaks.map(({ id }) => id);
const chosen = breaks.filter(({ id }) => ids.includes(id));
const unknown = ids.filter((id) => !breaks.some((each) => each.id === id));
if (unknown.length > 0) throw new Error(`no such break: ${unknown.join(", ")}`);

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const copy = mkdtempSync(join(tmpdir(), "headgate-breaks-"));
let running: ChildProcess | null = null;
const cleanUp = (): void => {
  try {
    if (running?.pid !== undefined) process.kill(-running.pid, "SIGKILL");
  } finally {
    rmSync(copy, { recursive: true, force: true, maxRetries: 3 });
  }
};
// A second signal must not end the process while it cleans up.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(1));
process.once("exit", cleanUp);

cpSync(root, copy, { recursive: true, filter: (path) => !left.has(path) });
symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
// It says that each text is there, which it is not where a break is.
rmSync(join(copy, "test/breaks/breaks.test.ts"));

if (values.tier === "check") process.exitCode = await check();
else if (isTier(values.tier)) for (const each of chosen) await tryOne(each, values.tier);
else throw new Error("--tier is test, programs, long or check");

type Tier = keyof typeof configs;

function isTier(text: string): text is Tier {
  return Object.hasOwn(configs, text);
}

async function check(): Promise<number> {
  for (const each of chosen) putIn(each);
  const typed = await run("tsc", ["--noEmit"], 10);
  const linted = await run("biome", ["check", "src"], 10);
  for (const { output } of [typed, linted]) print(output);
  return typed.code === 0 && linted.code === 0 ? 0 : 1;
}

/** Returns the source as it was. */
function putIn(each: Break): string {
  const path = join(copy, each.file);
  const source = readFileSync(path, "utf8");
  writeFileSync(path, replaceOnce(source, each));
  return source;
}

async function tryOne(each: Break, tier: Tier): Promise<void> {
  const before = putIn(each);
  try {
    if (tier !== "test") await build();
    print(`${each.id}: ${(await finding(each, tier)) ?? `not found by ${tier} ${positionals.join(" ")}`}`);
  } finally {
    writeFileSync(join(copy, each.file), before);
  }
}

/** Programs and threads run what is built. */
async function build(): Promise<void> {
  const { code, output } = await run("npm", ["run", "build"], 10);
  if (code !== 0) throw new Error(output);
}

/** Returns by which test the break is found; null: by none. */
async function finding({ room }: Break, tier: Tier): Promise<string | null> {
  if (positionals.length > 0) return firstFailure(tier, positionals);
  const nearby = tier === "test" ? near[room] : [];
  const found = nearby.length === 0 ? null : await firstFailure(tier, nearby);
  // Again with the folders that were tried, in another order: each of them is a part of the whole.
  return found ?? firstFailure(tier, []);
}

async function firstFailure(tier: Tier, files: readonly string[]): Promise<string | null> {
  // A failure by chance hides what comes after it, so the same tests are tried again.
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const failed = await failedTest(tier, files);
    if (failed === null) return null;
    if ((await failedTest(tier, [failed.file])) !== null) return `found by ${tier}: ${failed.file}: ${failed.name}`;
    print(`  by chance: ${failed.file}: ${failed.name}`);
  }
  return "uncertain: other tests failed by chance";
}

async function failedTest(tier: Tier, files: readonly string[]): Promise<{ file: string; name: string } | null> {
  const results = join(copy, "results.json");
  rmSync(results, { force: true });
  const report = ["--reporter=json", `--outputFile=${results}`];
  const args = ["run", "--config", configs[tier], "--bail", "1", ...report, ...files];
  const { code, output } = await run("vitest", args, runMinutes[tier]);
  if (code === 0) return null;
  if (!existsSync(results)) return { file: files.join(" "), name: `no results: ${output.slice(-300)}` };
  for (const { name, message, assertionResults } of (JSON.parse(readFileSync(results, "utf8")) as Results)
    .testResults) {
    const failed = assertionResults.find(({ status }) => status === "failed");
    if (failed !== undefined) return { file: relative(copy, name), name: failed.fullName };
    if (message !== "" && assertionResults.length === 0) return { file: relative(copy, name), name: message };
  }
  return { file: files.join(" "), name: `failed without a failed test: ${output.slice(-300)}` };
}

/** What vitest's reporter writes, as far as it is read. */
interface Results {
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

/** Runs a program of the repository in the copy. All that it has started ends with it. */
async function run(
  command: string,
  args: readonly string[],
  minutes: number,
): Promise<{ code: number; output: string }> {
  const path = `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`;
  const child = spawn(command, args, { cwd: copy, detached: true, env: { ...process.env, PATH: path } });
  running = child;
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += String(bytes)));
  const end = (): void => {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  };
  const timer = setTimeout(end, minutes * 60_000);
  const code = await new Promise<number>((done) => child.once("close", (exit) => done(exit ?? 1)));
  clearTimeout(timer);
  running = null;
  return { code, output };
}
