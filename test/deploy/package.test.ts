// What `npm pack` puts into the package: whoever has only that can follow every link of its pages.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

/** Without the compiled files, which only a build makes. */
function packedFiles(): string[] {
  // The scripts would build, and npm would ask its registry for a newer npm.
  const args = ["pack", "--dry-run", "--json", "--ignore-scripts", "--no-update-notifier", "--offline"];
  const output: unknown = JSON.parse(execFileSync("npm", args, { cwd: root, encoding: "utf8", stdio: "pipe" }));
  const [{ files }] = Object.values(output as object) as [{ files: { path: string }[] }];
  return files.map(({ path }) => path).filter((path) => !path.startsWith("dist/"));
}

/** Relative links of Markdown and of the HTML in it, without their fragments. */
function linksOf(text: string): string[] {
  const withoutCode = text.replace(/^```.*?^```/gms, "").replace(/`[^`\n]*`/g, "");
  const links = withoutCode.matchAll(/\]\(\s*([^)\s]+)[^)]*\)|^\[[^\]]+\]:\s*(\S+)|\b(?:src|href)="([^"]+)"/gm);
  return [...links]
    .map(([, inline, reference, attribute]) => inline ?? reference ?? attribute ?? "")
    .filter((link) => !/^(?:[a-z]+:|#)/.test(link))
    .map((link) => link.replace(/#.*$/, ""));
}

test("every relative link of a packed page leads to a packed file", () => {
  const packed = packedFiles();
  const links = packed
    .filter((path) => path.endsWith(".md"))
    .flatMap((page) => linksOf(readFileSync(join(root, page), "utf8")).map((link) => [page, link] as const));
  expect(links.length).toBeGreaterThan(20);
  const leadsSomewhere = (page: string, link: string): boolean => {
    const target = normalize(join(dirname(page), link)).replace(/\/$/, "");
    return packed.some((path) => path === target || path.startsWith(`${target}/`));
  };
  expect(links.filter(([page, link]) => !leadsSomewhere(page, link))).toEqual([]);
});

test("nothing is packed that only the repository uses", () => {
  expect(packedFiles().filter((path) => /^(?:src|test|bench)\/|\/(?:source|tests)\//.test(path))).toEqual([]);
});
