import { expect, test } from "vitest";
import { renderConfigError } from "../../src/config/written.ts";
import { readYaml } from "../../src/config/yaml-source.ts";

const errorsOf = (text: string) => readYaml(text, "f.yaml").errors.map(renderConfigError);

test("an empty document says nothing, and that is no mistake", () => {
  for (const text of ["", "\n", "# only a comment\n", "---\n", "--- # nothing\n"]) {
    const { raw, errors } = readYaml(text, "f.yaml");
    expect(errors).toEqual([]);
    expect(raw === undefined || (raw.kind === "scalar" && raw.value === null)).toBe(true);
  }
});

test("JSON is YAML", () => {
  expect(readYaml('{"listen":{"port":80},"routes":["/v1/"]}', "f.json")).toMatchObject({
    errors: [],
    raw: {
      entries: [{ key: "listen", value: { entries: [{ key: "port", value: { value: 80 } }] } }, { key: "routes" }],
    },
  });
});

test("a value knows its line and column, an alias stands where it is used", () => {
  const { raw } = readYaml("timeouts:\n  head: &short 1s\n  body: *short\n", "f.yaml");
  expect(raw).toMatchObject({
    entries: [
      {
        value: {
          entries: [
            { key: "head", keyAt: { line: 2, column: 3 }, value: { value: "1s" } },
            { key: "body", value: { value: "1s", at: { kind: "file", file: "f.yaml", line: 3, column: 9 } } },
          ],
        },
      },
    ],
  });
});

test("every broken line is reported, and none twice", () => {
  expect(errorsOf('a: "x\\q"\nb: @x\nc: !secret x\n')).toEqual([
    expect.stringMatching(/^f\.yaml:1:\d+: not valid YAML: /),
    expect.stringMatching(/^f\.yaml:2:4: not valid YAML: /),
    "f.yaml:3:4: not valid YAML: tags (!name) have no meaning here",
  ]);
});

test("a message never quotes the text", () => {
  for (const text of ["a: 'x' hunter2\n", "a: !hunter2 x\n", "a: *hunter2\n", "hunter2\n b: 1\n", "a: @hunter2\n"]) {
    expect(errorsOf(text).join("\n")).toMatch(/^f\.yaml:(?!.*hunter2)/);
  }
});

test.each([
  [
    "aliases in aliases",
    `a: &a [${"1,".repeat(10)}]\n${[..."bcdef"].map((n, i) => `${n}: &${n} [${`*${"abcde"[i]},`.repeat(10)}]\n`).join("")}`,
  ],
  ["more aliases than values may be", `a: [&a 1${",*a".repeat(15_000)}]\n`],
  ["an alias in itself", "a: &a [*a]\n"],
  ["deep lists", `a: ${"[".repeat(20_000)}`],
  ["deep mappings", `${"{a: ".repeat(5000)}1${"}".repeat(5000)}`],
  ["a long list", `a: [${"1,".repeat(30_000)}]\n`],
])("%s are refused once, without an exception", (_, text) => {
  expect(errorsOf(text)).toHaveLength(1);
});

test("a hundred aliases are followed, and no more", () => {
  expect(errorsOf(`a: [&a 1${",*a".repeat(100)}]\n`)).toEqual([]);
  expect(errorsOf(`a: [&a 1${",*a".repeat(101)}]\n`)).toEqual([
    "f.yaml:1:310: found more than 100 aliases, expected fewer",
  ]);
});

test("keys that objects treat differently are keys like any other", () => {
  const { raw } = readYaml("__proto__: 1\nconstructor: 2\n? [a]\n: 3\n80: 4\n", "f.yaml");
  expect(raw?.kind === "mapping" && raw.entries.map(({ key }) => key)).toEqual(["__proto__", "constructor", "?", "80"]);
});
