// The shelves of the site, as docs/README.md has them: `## Shelf`, and below it `- [Title](page.md): the question it answers`.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

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
export function pagesOf(): string[] {
  return readdirSync(docs, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md"))
    .sort();
}

export function shelves(readme = readFileSync(join(docs, "README.md"), "utf8")): Shelf[] {
  return readme.split(/^## /m).slice(1).map(shelfOf);
}

function shelfOf(text: string): Shelf {
  const items = text.matchAll(/^- \[([^\]]+)\]\(([^)#]+\.md)\)(?:: *(.*))?/gm);
  const pages = [...items].map(([, title = "", path = "", question = ""]) => ({ title, path, question }));
  return { name: text.split("\n", 1)[0]?.trim() ?? "", pages };
}

/** Where the site has a page: GitHub shows README.md as the index of a folder, a server index.html. */
export function routeOf(path: string): string {
  return path.replace(/(^|\/)README\.md$/, "$1index.md");
}
