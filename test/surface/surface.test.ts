// A change of the public surface says so in the changelog: whatever differs from released.txt, which `npm run surface` writes at a
// release, is named there, with its area, such as `config auth.realm`.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { read } from "../docs/markdown.ts";
import { surface, unnamed } from "./surface.ts";

const released = readFileSync(join(import.meta.dirname, "released.txt"), "utf8")
  .trimEnd()
  .split("\n");

/** What the changelog says of the version that is not released yet. */
const unreleased =
  read("CHANGELOG.md")
    .split(/^## /m)
    .find((section) => section.startsWith("Unreleased\n")) ?? "";

const current = await surface();

test("the changelog names each change of the surface since the last release", () => {
  expect(unnamed(released, current, unreleased)).toEqual([]);
});

test("each area has lines, and no name has two", () => {
  expect([...new Set(current.map((line) => line.split(" ")[0]))]).toEqual([
    ...[
      "api",
      "client",
      "command",
      "config",
      "environment",
      "exit",
      "log",
      "metric",
      "plugin",
      "refusal",
      "snapshot",
      "store",
    ],
  ]);
  const names = current.map((line) => line.slice(0, line.indexOf(": ")));
  expect(names.filter((name, i) => !/^\w+ \S+$/.test(name) || names.indexOf(name) !== i)).toEqual([]);
});

test("the page about stability names each area", () => {
  const rows = [...read("docs/stability.md").matchAll(/^\| (`\w+`(?:, `\w+`)*) \|/gm)];
  const named = rows.flatMap(([, areas = ""]) => areas.match(/\w+/g) ?? []);
  expect(named.sort()).toEqual([...new Set(current.map((line) => line.split(" ")[0]))]);
});

test("a line that is added, removed or changed is named itself or by what it belongs to", () => {
  const before = ["config auth.mode: enum", "config auth: object", "metric x_total: counter {a}"];
  const now = ["config auth.mode: text", "config auth: object", "metric x_total: counter {a}", "exit other: 3"];
  expect(unnamed(before, before, "")).toEqual([]);
  expect(unnamed(before, now, "")).toEqual(["config auth.mode", "exit other"]);
  expect(unnamed(before, now, "- `exit other`: new. `config auth.mode` is any text.")).toEqual([]);
  expect(unnamed(before, now, "- `exit other`: new. `config auth` is another.")).toEqual([]);
  expect(
    unnamed(before, now, "- `exit other`: new. `config au` is another, `auth.mode` and config auth.mode too."),
  ).toEqual(["config auth.mode"]);
  expect(unnamed(before, before.slice(0, 2), "`config x_total`")).toEqual(["metric x_total"]);
});
