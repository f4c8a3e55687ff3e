// The site is docs/ as it stands: nothing is written for it alone. It loads nothing from other hosts.
import { relative, resolve } from "node:path";
import { defineConfig } from "vitepress";
import { checkLinks, copyLinkedFiles, siteLinks, slugOf } from "../links.ts";
import { docs, pagesOf, routeOf, shelves } from "../pages.ts";
import { searchOptions, wordsOf } from "../search.ts";
import { namedColumns } from "../tables.ts";

const site = resolve(import.meta.dirname, "..");
const questions = new Map(shelves().flatMap(({ pages }) => pages.map(({ path, question }) => [path, question])));

export default defineConfig({
  title: "Headgate",
  description: "A rate-limiting reverse proxy for APIs: how to start, use and run it.",
  head: [["link", { rel: "icon", href: "data:," }]],
  srcDir: relative(site, docs),
  outDir: "dist",
  cacheDir: "node_modules/.cache/vitepress",
  rewrites: Object.fromEntries(pagesOf().map((path) => [path, routeOf(path)])),
  // Text that names a server of the reader is no link that could break.
  ignoreDeadLinks: "localhostLinks",
  markdown: {
    anchor: { slugify: slugOf },
    config: (md) => {
      siteLinks(md);
      namedColumns(md);
    },
    // Paths of the API in headings have braces: `/rules/{id}`.
    attrs: { disable: true },
    // Languages without a grammar of their own; each needs one to stand for it, and says so otherwise at each build.
    languageAlias: { caddy: "nginx", haproxy: "nginx", jq: "sh", promql: "sh" },
  },
  themeConfig: {
    sidebar: shelves().map(({ name, pages }) => ({
      text: name,
      collapsed: true,
      items: pages.map(({ title, path }) => ({ text: title, link: `/${routeOf(path)}` })),
    })),
    outline: [2, 3],
    // Each page ends with its own next step.
    docFooter: { prev: false, next: false },
    search: { provider: "local", options: { miniSearch: { options: { tokenize: wordsOf }, searchOptions } } },
  },
  // The pages are outside this folder, where Vite would look for Vue in vain.
  vite: {
    plugins: [
      {
        name: "vue-of-the-site",
        enforce: "pre",
        resolveId: (id, _importer, { ssr }) => (ssr && /^vue(\/|$)/.test(id) ? { id, external: true } : null),
      },
    ],
    // The search index is one file of a megabyte, and is loaded when somebody searches.
    build: { chunkSizeWarningLimit: 4_000 },
  },
  transformPageData(page) {
    page.description = (questions.get(page.filePath) ?? "").replaceAll("`", "");
  },
  buildEnd({ outDir, site: { base } }) {
    copyLinkedFiles(outDir);
    checkLinks(outDir, base);
  },
});
