import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { anchorsOf, markdownFiles, read, relativeLinks, root } from "./markdown.ts";

const files = markdownFiles();

test.each(files)("every link of %s leads to a file of the repository, and to a heading of it", (path) => {
  const broken = relativeLinks(path).filter(({ file, anchor }) => {
    if (!existsSync(join(root, file))) return true;
    return anchor !== "" && !anchorsOf(file).has(anchor);
  });
  expect(broken.map(({ written }) => written)).toEqual([]);
});

test("every page in docs/ can be reached from the README", () => {
  const reached = new Set(["README.md"]);
  for (const page of reached) {
    for (const { file } of relativeLinks(page)) if (file.endsWith(".md")) reached.add(file);
  }
  expect(files.filter((path) => path.startsWith("docs/") && !reached.has(path))).toEqual([]);
});

// The sidebar of the site is made from it.
test("the index has each page in docs/ once, on a shelf, with the question that it answers", () => {
  const index = read("docs/README.md");
  const [, ...shelves] = index.split(/^## /m);
  const names = shelves.map((shelf) => shelf.split("\n")[0]);
  expect(names).toEqual(["Start", "Use", "Run", "On call", "Share", "Ingress", "Move here", "Reference", "Inside"]);
  const entries = shelves.flatMap((shelf) => shelf.split("\n").slice(1)).filter((line) => line !== "");
  const listed = entries.map((line) => /^- \[[^\]]+\]\(([^)#]+\.md)\): .+\?$/.exec(line)?.[1] ?? line);
  const pages = files.filter((path) => path.startsWith("docs/") && path !== "docs/README.md");
  expect(listed.sort()).toEqual(pages.map((path) => path.slice("docs/".length)).sort());
});
