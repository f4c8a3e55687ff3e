// What the pages say, held to the code where a table or an example can be compared with it.
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { logFieldReference } from "../../config/source/log-field-reference.ts";
import { logReference } from "../../config/source/log-reference.ts";
import { loadSettings } from "../../src/config/load.ts";
import { schema } from "../../src/config/schema.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { localReplies } from "../../src/core/local-reply.ts";
import { pluginOptions } from "../../src/fastify/plugin-options.ts";
import { scratchFolder } from "../support/scratch.ts";
import { codeBlocks, markdownFiles, read, root } from "./markdown.ts";

const folder = scratchFolder(afterAll);

/** Examples of the gateway's own configuration; other YAML begins with other keys. */
const examples = markdownFiles()
  .flatMap((path) => codeBlocks(path, "yaml").map((text) => ({ path, text })))
  .filter(({ text }) => Object.hasOwn(schema.keys, /^([A-Za-z]+):/m.exec(text)?.[1] ?? ""));

test("there are examples of the configuration", () => {
  expect(examples.length).toBeGreaterThan(10);
});

test.each(examples)("an example of the configuration in $path is valid: $text", ({ text }) => {
  const file = join(folder, "headgate.yaml");
  writeFileSync(file, text);
  const loaded = loadSettings({ file, env: {}, cwd: folder, overrides: [] });
  expect(loaded.ok ? [] : loaded.errors.map(renderConfigError)).toEqual([]);
});

describe("the README", () => {
  test("is short, and has the commands to try it and to test it", () => {
    const lines = read("README.md").trimEnd().split("\n");
    expect(lines.length).toBeLessThanOrEqual(90);
    expect(lines).toEqual(expect.arrayContaining(["npm ci && npm run demo", "npm ci && npm test"]));
  });
});

describe("ARCHITECTURE.md", () => {
  const quoted = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text);
  const rows = [...read("ARCHITECTURE.md").matchAll(/^\| (.*) \| (.*`(?:src|test)\/.*) \| (.*`.*) \|$/gm)].map(
    ([, question = "", files = "", names = ""]) => ({ question, files: quoted(files), names: quoted(names) }),
  );
  const has = (file: string, name: string): boolean => read(file).includes(name.replace(/\)$/, ""));

  test("says where things are", () => {
    expect(rows.length).toBeGreaterThan(25);
  });

  test.each(rows)("$question: each name is in one of the files, and each file has one of the names", (row) => {
    const { files, names } = row;
    expect(names.filter((name) => !files.some((file) => has(file, name)))).toEqual([]);
    expect(files.filter((file) => !names.some((name) => has(file, name)))).toEqual([]);
  });

  test("says of each folder of src what it holds", () => {
    const folders = readdirSync(join(root, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const table = read("ARCHITECTURE.md").split("## Folders and imports")[1] ?? "";
    const described = new Set([...table.matchAll(/^\| (`[^|]*) \|/gm)].flatMap(([, cell = ""]) => quoted(cell)));
    expect(folders.map(({ name }) => `${name}/`).filter((name) => !described.has(name))).toEqual([]);
  });
});

describe("paths in the pages for contributors", () => {
  const named = ["ARCHITECTURE.md", "CONTRIBUTING.md", "test/README.md"].flatMap((page) =>
    [...read(page).matchAll(/`([\w.-]+(?:\/[\w.-]+)*(?:\/|\.(?:test\.ts|ts|md|yaml)))`/g)].map(([, path = ""]) => ({
      page,
      path,
    })),
  );

  test.each(named)("$path of $page exists", ({ page, path }) => {
    const folders = [".", dirname(page), "src"];
    expect(folders.some((folder) => existsSync(join(root, folder, path)))).toBe(true);
  });
});

describe("behaviour.md", () => {
  const rows = [...read("docs/behaviour.md").matchAll(/^\| (\d{3}) \| .* \| `(\w+)` \|$/gm)];

  test("has each response that the gateway makes itself, with its status, and no other", () => {
    const written = rows.map(([, status, reason]) => `${status} ${reason}`);
    const made = Object.values(localReplies).map(({ status, reason }) => `${status} ${reason}`);
    expect([...new Set(written)].sort()).toEqual([...new Set(made)].sort());
  });
});

test.each(["docs/benchmarks.md", "docs/inside/benchmarks-results.md"])(
  "%s has the marks between which `npm run bench -- --write` writes",
  (path) => {
    const marks = [...read("bench/report.ts").matchAll(/"(<!-- .* -->)\\n"/g)].map(([, mark = ""]) => mark);
    expect(marks).toHaveLength(2);
    expect(read(path).match(new RegExp(marks.join("|"), "g"))).toEqual(marks);
  },
);

test("fastify.md: each option of the plugin has a row, and no other has", () => {
  const rows = [...read("docs/fastify.md").matchAll(/^\| (`\w+`(?:, `\w+`)*) \| .* \| .* \|$/gm)];
  const written = rows.flatMap(([, options = ""]) => [...options.matchAll(/`(\w+)`/g)].map(([, name]) => name));
  expect(written.filter((name) => name !== undefined).sort()).toEqual(Object.keys(pluginOptions.keys).sort());
});

describe("the pages about the log", () => {
  test("logs.md has each field of the access log with its type, and no other: run `npm run api` after a change", () => {
    const [, written] =
      /<!-- all fields: npm run api -->\n(.*)<!-- end of all fields -->/s.exec(read("docs/logs.md")) ?? [];
    expect(written).toBe(logFieldReference());
  });

  test("log-lines.md has each other line of the log with its level, and no other: run `npm run api` after a change", () => {
    const page = read("docs/log-lines.md");
    const [, written] = /<!-- all log lines: npm run api -->\n(.*)<!-- end of all log lines -->/s.exec(page) ?? [];
    expect(written).toBe(logReference());
    expect(written?.match(/^\| `/gm)?.length).toBeGreaterThan(60);
  });
});
