// What `npm pack` puts into the package: whoever has only that can follow every link of its pages.
import { execFileSync } from "node:child_process";
import { beforeAll, expect, test } from "vitest";
import { type Link, relativeLinks, root } from "../docs/markdown.ts";

let packed: readonly string[];
beforeAll(() => {
  packed = packedFiles();
});

/** Without the compiled files, which only a build makes. */
function packedFiles(): string[] {
  // The scripts would build, and npm would ask its registry for a newer npm.
  const args = ["pack", "--dry-run", "--json", "--ignore-scripts", "--no-update-notifier", "--offline"];
  const output: unknown = JSON.parse(execFileSync("npm", args, { cwd: root, encoding: "utf8", stdio: "pipe" }));
  const [{ files }] = Object.values(output as object) as [{ files: { path: string }[] }];
  return files.map(({ path }) => path).filter((path) => !path.startsWith("dist/"));
}

test("every relative link of a packed page leads to a packed file", () => {
  const links = packed.filter((path) => path.endsWith(".md")).flatMap(relativeLinks);
  expect(links.length).toBeGreaterThan(20);
  const isPacked = ({ file }: Link): boolean => {
    const target = file.replace(/\/$/, "");
    return packed.some((path) => path === target || path.startsWith(`${target}/`));
  };
  expect(links.filter((link) => !isPacked(link))).toEqual([]);
});

test("nothing is packed that only the repository uses", () => {
  // `helm test` uses those of a chart.
  const repositoryOnly = /^(?:src|test|bench)\/|\/source\/|(?<!\/templates)\/tests\//;
  expect(packed.filter((path) => repositoryOnly.test(path))).toEqual([]);
});
