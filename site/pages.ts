// The shelves of the site, as docs/README.md has them: `## Shelf`, and below it `- [Title](page.md): the question it answers`.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

export const root = resolve(import.meta.dirname, "..");
export const docs = join(root, "docs");

export interface Page {
  readonly title: string;
  /** In docs/, such as `move/nginx.md`. */
  readonly path: string;
  readonly question: string;
}

export interface Shelf {
  readonly name: string;
  readonly pages: readonly Page[];
}

/** Every page of docs/, sorted. */
export function pagesOf(folder = docs): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md"))
    .sort();
}

/** A page that is on no shelf is on the last one, so that a reader finds it. */
export function shelves(readme = readFileSync(join(docs, "README.md"), "utf8"), all = pagesOf()): Shelf[] {
  const named = readme.split(/^## /m).slice(1).map(shelfOf);
  const placed = new Set(["README.md", ...named.flatMap(({ pages }) => pages.map(({ path }) => path))]);
  const others = all.filter((path) => !placed.has(path)).map((path) => ({ title: titleOf(path), path, question: "" }));
  return others.length === 0 ? named : [...named, { name: "More", pages: others }];
}

function shelfOf(text: string): Shelf {
  const items = text.matchAll(/^- \[([^\]]+)\]\(([^)#]+\.md)\)(?:: *(.*))?/gm);
  const pages = [...items].map(([, title = "", path = "", question = ""]) => ({ title, path, question }));
  return { name: text.split("\n", 1)[0]?.trim() ?? "", pages };
}

function titleOf(path: string): string {
  const [, title = path] = /^# (.+)$/m.exec(readFileSync(join(docs, path), "utf8")) ?? [];
  return title.replaceAll("`", "");
}

/** Where the site has a page: GitHub shows README.md as the index of a folder, a server index.html. */
export function routeOf(path: string): string {
  return join(dirname(path), path.endsWith("README.md") ? "index.md" : path.slice(path.lastIndexOf("/") + 1));
}
