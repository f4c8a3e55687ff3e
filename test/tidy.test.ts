// The house rules that a compiler does not know: which folder may import which, what is banned where, how long a
// function may be. A rule that is broken names the file and the line.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");
const src = join(root, "src");
const maxFunctionLines = 70;

interface SourceFile {
  /** Relative to src/, with forward slashes. */
  readonly path: string;
  readonly lines: readonly string[];
}

function filesIn(folder: string): SourceFile[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => /\.[jt]s$/.test(path))
    .sort()
    .map((path) => join(folder, path))
    .map((path) => ({ path: relative(src, path), lines: readFileSync(path, "utf8").split("\n") }));
}

const files: readonly SourceFile[] = filesIn(src);

const middle = ["config", "limits", "auth", "upstream", "ext-auth", "admin", "telemetry"];
/** A room with a rule of its own: the connections to a store know no policy. */
const redis = "limits/store/redis";
/** Another one: what happened in the last minutes. */
const recent = "telemetry/recent";
/** Who may import what of ours, besides its own folder. A file at the top is its own layer. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  core: [],
  "finance-backend": [],
  client: [],
  ...Object.fromEntries(middle.map((folder) => [folder, ["core"]])),
  [redis]: ["core"],
  [recent]: ["core"],
  telemetry: ["core", recent],
  upstream: ["core", "exchange", "http1"],
  admin: ["core", "exchange"],
  "ext-auth": ["core", "exchange", "http1", "http2"],
  exchange: ["core", "http2"],
  http1: ["core"],
  http2: ["core"],
  transport: ["core", "exchange", "http1", "http2"],
  listener: ["core", "exchange"],
  "pipeline.ts": ["core"],
  gateway: ["core", "pipeline.ts", "exchange", "transport", "listener", redis, recent, ...middle],
  fastify: ["core", "exchange", "transport", "gateway", ...middle],
  commands: ["core", "gateway", "finance-backend", "client", "listener", ...middle],
  "oldest-node.js": [],
  "main.ts": ["oldest-node.js", "commands"],
};

function layerOf(path: string): string {
  return [redis, recent].find((room) => path.startsWith(`${room}/`)) ?? path.split("/")[0] ?? path;
}

function importsOf({ lines }: SourceFile): string[] {
  const pattern = /(?:from|import)\s*\(?\s*"([^"]+)"/g;
  return [...lines.join("\n").matchAll(pattern)].map((match) => match[1] ?? "");
}

/** The files of src that a file imports. */
function targetsOf(file: SourceFile): string[] {
  return importsOf(file)
    .filter((specifier) => specifier.startsWith("."))
    .map((specifier) => relative(src, resolve(src, dirname(file.path), specifier)));
}

/** Circles of files that import each other, at least one where there are any: its files in order, the first again last. */
function circlesOf(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const done = new Set<string>();
  const circles: string[][] = [];
  const visit = (file: string, path: readonly string[]): void => {
    const at = path.indexOf(file);
    if (at !== -1) circles.push([...path.slice(at), file]);
    if (at !== -1 || done.has(file)) return;
    for (const target of imports.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) visit(file, []);
  return circles;
}

/** Lines that match, as `path:line`, comments left out. */
function linesMatching(pattern: RegExp, isExempt: (path: string) => boolean): string[] {
  return files
    .filter(({ path }) => !isExempt(path))
    .flatMap(({ path, lines }) =>
      lines.flatMap((line, i) => (pattern.test(line.replace(/\/\/.*$|^\s*\*.*$/, "")) ? [`${path}:${i + 1}`] : [])),
    );
}

describe("imports run one way", () => {
  test("no folder imports one it must not know", () => {
    const wrong = files.flatMap((file) => {
      const layer = layerOf(file.path);
      return targetsOf(file)
        .filter((target) => layerOf(target) !== layer && !(allowed[layer] ?? []).includes(layerOf(target)))
        .map((target) => `${file.path} imports ${target}`);
    });
    expect(wrong).toEqual([]);
  });

  test("core imports nothing from outside of it", () => {
    const wrong = files
      .filter(({ path }) => layerOf(path) === "core")
      .flatMap((file) => importsOf(file).filter((specifier) => !specifier.startsWith("./")));
    expect(wrong).toEqual([]);
  });

  test("how a reload on trial is judged is known where reloads are, and nowhere else", () => {
    const judge = "limits/judge.ts";
    const knowing = files.filter((file) => targetsOf(file).includes(judge)).map(({ path }) => path);
    expect(knowing).toEqual(["gateway/reload-trials.ts"]);
  });

  test("no files import each other in a circle, types included", () => {
    const circles = circlesOf(new Map(files.map((file) => [file.path, targetsOf(file)])));
    expect(circles).toEqual([]);
  });

  test("a circle is found wherever it begins, and the way into it is left out", () => {
    const imports = new Map([
      ["a", ["b"]],
      ["b", ["c", "d"]],
      ["c", ["b", "d"]],
      ["d", ["d"]],
      ["e", ["a", "f"]],
      ["f", []],
    ]);
    expect(circlesOf(imports)).toEqual([
      ["b", "c", "b"],
      ["d", "d"],
    ]);
  });

  test("every folder and top-level file has its rule", () => {
    expect([...new Set(files.map(({ path }) => layerOf(path)))].sort()).toEqual(Object.keys(allowed).sort());
  });
});

describe("tests", () => {
  const tests = new Map(
    filesIn(import.meta.dirname).map((file) => [file.path, { ...file, text: file.lines.join("\n") }]),
  );
  const targets = new Map([...tests].map(([path, file]) => [path, targetsOf(file)]));

  test("a file that makes tests is in a run by its name, or imported by one that is", () => {
    const imported = new Set([...targets.values()].flat());
    const lost = [...tests.values()].filter(
      ({ path, text }) =>
        /import \{[^}]*\btest\b[^}]*\} from "vitest"/.test(text) &&
        !/\.(?:test|programs|long|night)\.ts$/.test(path) &&
        !imported.has(path),
    );
    expect(lost.map(({ path }) => path)).toEqual([]);
  });

  const reached = (path: string, seen = new Set<string>()): Set<string> => {
    if (!seen.has(path)) for (const target of targets.get(path) ?? []) reached(target, seen.add(path));
    return seen.add(path);
  };

  test("what npm test tries a sample of says so by its name, by which test:long tries all of it", () => {
    const runsFile = "../test/support/runs.ts";
    const ofNpmTest = [...tests.keys()].filter((path) => path.endsWith(".test.ts"));
    const isSampled = (path: string) => path.endsWith(".sampled.test.ts");
    expect(ofNpmTest.filter((path) => !isSampled(path) && targets.get(path)?.includes(runsFile))).toEqual([]);
    expect(ofNpmTest.filter((path) => isSampled(path) && !reached(path).has(runsFile))).toEqual([]);
  });

  test("what is skipped without a program is not in npm test", () => {
    const asks = (path: string) => /HEADGATE_REQUIRE\b.* [!=]== "all"/.test(tests.get(path)?.text ?? "");
    const skipping = [...tests.keys()].filter((path) => path.endsWith(".test.ts") && [...reached(path)].some(asks));
    expect(skipping).toEqual([]);
  });
});

describe("bans", () => {
  test("only the clocks read the time", () => {
    const clocks = ["core/clock.ts", "client/clock.ts", "admin/console/clock.js"];
    const readings = /\bDate\.now\(|\bperformance\.now\(|\bnew Date\(\)|process\.hrtime/;
    expect(linesMatching(readings, (path) => clocks.includes(path))).toEqual([]);
  });

  test("only main and the plugin's entry touch the process", () => {
    const exempt = ["main.ts", "oldest-node.js", "fastify/index.ts"];
    expect(
      linesMatching(/\bprocess\.(?!nextTick\b|hrtime\b)\w+|from "node:process"/, (path) => exempt.includes(path)),
    ).toEqual([]);
  });

  test("nothing prints but through what it was given", () => {
    expect(linesMatching(/\bconsole\./, () => false)).toEqual([]);
  });

  test("no empty catch, no any, no ignored type error", () => {
    expect(
      linesMatching(/catch(?: \(\w+\))? \{\s*\}|\bas any\b|: any\b|@ts-(?:ignore|nocheck|expect-error)/, () => false),
    ).toEqual([]);
  });

  test("no file is named for having no name", () => {
    const vague = /(?:^|\/)(?:utils?|helpers?|common|managers?|data|info|misc)(?:\.ts|\/)/;
    expect(files.map(({ path }) => path).filter((path) => vague.test(path))).toEqual([]);
  });
});

describe("names", () => {
  test("a type's name has one meaning: no second file defines it", () => {
    const places = new Map<string, string[]>();
    // The console is a program of its own.
    for (const { path, lines } of files.filter((file) => file.path.endsWith(".ts"))) {
      for (const line of lines) {
        const name = /^(?:export )?(?:abstract )?(?:type|interface|class) ([A-Z]\w*)/.exec(line)?.[1];
        if (name !== undefined) places.set(name, [...(places.get(name) ?? []), path]);
      }
    }
    const twice = [...places].filter(([, paths]) => paths.length > 1);
    expect(twice.map(([name, paths]) => `${name}: ${paths.join(", ")}`)).toEqual([]);
  });
});

describe("shape", () => {
  test("every file begins by saying what it guarantees", () => {
    const silent = files.filter(({ lines }) => !(lines[0]?.startsWith("#!") ? lines[1] : lines[0])?.startsWith("// "));
    expect(silent.map(({ path }) => path)).toEqual([]);
  });

  test(`no function is longer than ${maxFunctionLines} lines`, () => {
    expect(files.flatMap(longFunctions)).toEqual([]);
  });

  test("no file is longer than 600 lines", () => {
    expect(files.filter(({ lines }) => lines.length > 600).map(({ path }) => path)).toEqual([]);
  });
});

/**
 * The formatter puts a function's last brace under the beginning of its first line; that is where it ends. A head of
 * several lines ends in a line that begins with the closing parenthesis under the beginning of its first.
 */
function longFunctions({ path, lines }: SourceFile): string[] {
  return lines.flatMap((line, i) => {
    if (!opensFunction.test(line) || /^\s*(?:if|for|while|switch|\} else|\} catch|do)\b/.test(line)) return [];
    const indent = /^\s*/.exec(line)?.[0] ?? "";
    const begins = (other: string): boolean => other.startsWith(indent) && /\S/.test(other[indent.length] ?? "");
    const above = line.startsWith(`${indent})`) ? lines.slice(0, i).findLastIndex(begins) : i;
    const end = i + 1 + lines.slice(i + 1).findIndex((later) => later.startsWith(`${indent}}`));
    const length = end - above + 1;
    return length > maxFunctionLines ? [`${path}:${above + 1} has ${length} lines`] : [];
  });
}

const opensFunction = /(?:=>|\bfunction\b.*|^\s*(?:override |static |async |get |set )*#?[\w]+\(.*\).*|^\s*\).*) \{$/;
