// What the installed command and the npm scripts say on a Node that is too old. The files that such a Node loads before the
// version is checked must link and parse there: nothing checks that but an older Node, or the rules below.
import { execFile, execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";

const root = join(import.meta.dirname, "../..");
const { engines, scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  engines: { node: string };
  scripts: Record<string, string>;
};
const [oldest = "", next = ""] = /^\^(.+) \|\| >=(.+)$/.exec(engines.node)?.slice(1) ?? [];
const installed = mkdtempSync(join(tmpdir(), "headgate-installed-"));
const main = join(installed, "dist/main.js");

beforeAll(() => {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  // Without the check of the types, which takes most of the time and changes nothing in what is written.
  const args = [tsc, "-p", "tsconfig.build.json", "--noCheck", "--outDir", dirname(main)];
  execFileSync(process.execPath, args, { cwd: root });
  copyFileSync(join(root, "package.json"), join(installed, "package.json"));
});
afterAll(() => rmSync(installed, { recursive: true }));

interface Ran {
  readonly code: number;
  readonly err: string;
}

function run(node: string, ...args: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(node, args, { cwd: root }, (error, _out, err) => resolve({ code: Number(error?.code ?? 0), err }));
  });
}

function refusal(version: string): Ran {
  const err = `headgate: found Node ${version}, expected ${oldest} or later, and not 25\n`;
  return { code: exitCodes.unavailable, err };
}

/** The first Node on the path that is too old, with its version. */
function findOldNode(): { node: string; version: string } | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const node = join(folder, "node");
    if (!existsSync(node)) continue;
    const version = execFileSync(node, ["--version"], { encoding: "utf8" }).trim().slice(1);
    if (version.localeCompare(oldest, undefined, { numeric: true }) < 0) return { node, version };
  }
  return undefined;
}

const old = findOldNode();

test.runIf(old !== undefined)("an old Node is told which one is needed, from package and sources", async () => {
  const { node = "", version = "" } = old ?? {};
  expect(await run(node, main, "start")).toEqual(refusal(version));
  for (const script of ["start", "demo", "headgate"]) {
    const args = (scripts[script] ?? "").replace("exec ", "").split(" ").slice(1);
    expect([script, await run(node, ...args)]).toEqual([script, refusal(version)]);
  }
});

test("a version that package.json does not ask for is refused, the oldest ones that it asks for are not", async () => {
  const pretend = (version: string): Promise<Ran> => {
    const code = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`;
    return run(process.execPath, "--import", `data:text/javascript,${code}`, main, "--version");
  };
  expect(await pretend("18.0.0")).toEqual(refusal("18.0.0"));
  for (const version of ["24.15.9", "25.0.0", "25.99.0"]) expect(await pretend(version)).toEqual(refusal(version));
  for (const version of [`${oldest}.0`, `${next}.0.0`]) expect(await pretend(version)).toEqual({ code: 0, err: "" });
});

test("what is loaded before the check imports only what Node 18 has", () => {
  const seen = new Set<string>();
  const visit = (file: string): string[] => {
    if (seen.has(file)) return [];
    seen.add(file);
    const imports = [...readFileSync(file, "utf8").matchAll(/^import (?:(.+) from )?"(.+)";$/gm)];
    return imports.flatMap(([line, names = "", specifier = ""]) => {
      if (specifier.startsWith(".")) return visit(join(dirname(file), specifier));
      // A name that a module does not export is a SyntaxError before the first statement runs.
      return /^\w+$/.test(names) && specifier.startsWith("node:") ? [] : [line];
    });
  };
  expect(visit(main)).toEqual([]);
  expect(seen.size).toBe(3);
  expect(readFileSync(main, "utf8")).toMatch(/^import "\.\/oldest-node\.js";$/m);
});
