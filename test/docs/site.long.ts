// The site as `npm run site` builds it: every page is there, and the search of the browser finds a word.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { pagesOf, root, routeOf } from "../../site/pages.ts";
import { searchOptions, wordsOf } from "../../site/search.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { scratchFolder } from "../support/scratch.ts";

const cleanup = useCleanup();
const site = join(root, "site");
const generator = join(site, "node_modules/vitepress/bin/vitepress.js");
const skip = !existsSync(generator) && process.env["HEADGATE_REQUIRE"] !== "all";

interface Search {
  search(words: string): readonly { readonly id: string }[];
}

test.skipIf(skip)(
  `every page is in the site, and a search finds it${skip ? " (needs npm ci --prefix site)" : ""}`,
  async () => {
    const folder = scratchFolder(cleanup);
    const outDir = join(folder, "dist");
    const build = startProcessGroup(process.execPath, [generator, "build", site, "--outDir", outDir], {
      stdout: "ignore",
    });
    cleanup(() => build.end());
    const errors = build.child.stderr.toArray();
    expect([await build.exited, String(await errors)]).toEqual([{ code: 0, signal: null }, expect.anything()]);

    for (const path of pagesOf()) {
      const html = readFileSync(join(outDir, routeOf(path).replace(/md$/, "html")), "utf8");
      expect([path, /<h1 id=/.test(html)]).toEqual([path, true]);
      // Nothing is loaded from another host.
      expect([path, html.match(/<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?\/\/[^"]*"/g)]).toEqual([
        path,
        null,
      ]);
    }
    const search = await openSearch(outDir);
    expect(search.search("requests_per_unit")[0]?.id).toMatch(/^\/move\/envoy\.html/);
    expect(search.search("nodelay")[0]?.id).toMatch(/^\/move\/nginx\.html/);
    expect(search.search("block a client")[0]?.id).toBe("/commands.html#headgate-block");
  },
);

/** The index that the browser loads, read by the package that reads it there. */
async function openSearch(outDir: string): Promise<Search> {
  const chunks = join(outDir, "assets/chunks");
  const [index = ""] = readdirSync(chunks).filter((name) => name.startsWith("@localSearchIndex"));
  const { default: text } = await import(pathToFileURL(join(chunks, index)).href);
  const { default: MiniSearch } = await import(createRequire(generator).resolve("minisearch"));
  const options = { ...searchOptions, boost: { title: 4, text: 2, titles: 1 } };
  return MiniSearch.loadJSON(text, { fields: ["title", "titles", "text"], tokenize: wordsOf, searchOptions: options });
}
