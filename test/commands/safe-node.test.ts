import { expect, test } from "vitest";
import { saferNode } from "../../src/commands/safe-node.ts";

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
])("Node %s: the lowest safe release of its line is %s", (version, lowestSafe) => {
  expect(saferNode(version)).toBe(lowestSafe);
});
