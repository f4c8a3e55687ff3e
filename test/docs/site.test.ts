// What the site makes of the pages, without its generator.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkLinks, slugOf } from "../../site/links.ts";
import { pagesOf, routeOf, shelves } from "../../site/pages.ts";
import { wordsOf } from "../../site/search.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { anchorsOf, headingsOf, markdownFiles } from "./markdown.ts";

const cleanup = useCleanup();

test("a shelf has its pages in the order of the index", () => {
  const readme =
    "# Documentation\n\n## Use\n\n- [Limits](policies.md): How many?\n- [Keys](configuration.md)\n\n## Run\n";
  expect(shelves(readme)).toEqual([
    {
      name: "Use",
      pages: [
        { title: "Limits", path: "policies.md", question: "How many?" },
        { title: "Keys", path: "configuration.md", question: "" },
      ],
    },
    { name: "Run", pages: [] },
  ]);
});

test("every page is on one shelf", () => {
  const placed = shelves().flatMap(({ pages }) => pages.map(({ path }) => path));
  expect(["README.md", ...placed].toSorted()).toEqual(pagesOf());
});

test.each([
  ["README.md", "index.md"],
  ["move/README.md", "move/index.md"],
  ["move/nginx.md", "move/nginx.md"],
])("%s is served as %s", (path, route) => {
  expect(routeOf(path)).toBe(route);
});

test.each(markdownFiles().filter((path) => path.startsWith("docs/")))(
  "%s has the anchors that GitHub makes",
  (path) => {
    const slugs = headingsOf(path).map(slugOf);
    const anchors = anchorsOf(path);
    expect(slugs.filter((slug) => !anchors.has(slug))).toEqual([]);
  },
);

test("a key is a word, and so are its parts; a single letter is none", () => {
  expect(wordsOf("Set a `upstream.url` or limit_req, please.")).toEqual([
    "Set",
    "upstream.url",
    "upstream",
    "url",
    "or",
    "limit_req",
    "limit",
    "req",
    "please",
  ]);
});

const page = '<h1 id="top">Top</h1><a href="https://example.com/x">elsewhere</a>';

test.each([["b.html"], ["b.html#part"], ["#top"], ["/site/sub/"], ["sub/index.html"], ["../site/files/a%20b.txt"]])(
  "a link to %s is sound",
  (link) => {
    expect(() => checkLinks(built(link), "/site/")).not.toThrow();
  },
);

test.each(["c.html", "b.html#other", "#other", "/site/sub/b.html", "files/missing.txt", "/files/a%20b.txt"])(
  "a link to %s is broken",
  (link) => {
    expect(() => checkLinks(built(link), "/site/")).toThrow(new Error(`broken links:\na.html: ${link}`));
  },
);

/** A site under /site/ with a page that has the link. */
function built(link: string): string {
  const folder = scratchFolder(cleanup);
  for (const name of ["sub", "files"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "a.html"), `${page}<a href="${link}">there</a>`);
  writeFileSync(join(folder, "b.html"), '<h2 id="part">Part</h2><img src="files/a%20b.txt">');
  writeFileSync(join(folder, "sub/index.html"), page);
  writeFileSync(join(folder, "files/a b.txt"), "");
  return folder;
}
