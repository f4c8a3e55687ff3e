import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { anchorsOf, markdownFiles, relativeLinks, root } from "./markdown.ts";

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
