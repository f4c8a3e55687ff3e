import { expect, test } from "vitest";
import { renewed } from "../../config/source/safe-node.ts";
import { lowestSafe, saferNode } from "../../src/commands/safe-node.ts";
import { read } from "../docs/markdown.ts";

const table = new Map([
  [24, [22, 1]],
  [26, [12, 1]],
] as const);

test.each([
  ["24.16.0", "24.22.1"],
  ["24.22.0", "24.22.1"],
  ["24.22.1", null],
  ["24.23.0", null],
  ["26.10.0", "26.12.1"],
  ["26.12.0", "26.12.1"],
  ["26.12.1", null],
  ["26.13.0", null],
  ["27.0.0", null],
])("Node %s: the lowest safe release of its line is %s", (version, lowest) => {
  expect(saferNode(version, table)).toBe(lowest);
});

test("each line on which the gateway runs has a lowest safe release", () => {
  expect([...lowestSafe.keys()]).toEqual(expect.arrayContaining([24, 26]));
  expect(saferNode("24.0.0")).toMatch(/^24\.\d+\.\d+$/);
});

test("the table of the sources is renewed: newest security releases, new lines, nothing taken back", () => {
  const source = read("src/commands/safe-node.ts").replace(
    /( {2}\[\d+, \[\d+, \d+\]\],\n)+/,
    "  [24, [22, 1]],\n  [26, [12, 1]],\n",
  );
  const release = (version: string, security: boolean) => ({ version, security });
  const releases = [
    release("v28.1.0", true),
    release("v28.0.0", false),
    release("v27.0.1", false),
    release("v26.13.0", false),
    release("v26.12.10", true),
    release("v26.12.9", true),
    release("v25.9.1", true),
    release("v24.21.0", true),
    release("v22.30.0", true),
  ];
  const rows = (text: string) => text.match(/^ {2}\[\d+, .*$/gm);
  expect(rows(renewed(source, releases))).toEqual(["  [24, [22, 1]],", "  [26, [12, 10]],", "  [28, [1, 0]],"]);
  expect(renewed(source, [])).toBe(source);
  expect(() => renewed("no table", releases)).toThrow("no table in the form");
});
