// Links of the pages: those that leave docs/ get a copy of the file in the site, and none may be broken.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { docs, root } from "./pages.ts";

/** The part of a token of markdown-it that is used here. */
export interface Token {
  readonly type: string;
  readonly children: readonly Token[] | null;
  content: string;
  attrGet(name: string): string | null;
  attrSet(name: string, value: string): void;
}

export interface MarkdownIt {
  readonly core: {
    readonly ruler: {
      push(name: string, rule: (state: { tokens: readonly Token[]; env: { path: string } }) => void): void;
    };
  };
}

const copied = new Set<string>();

/** As GitHub makes the anchors, because the pages link to those. */
export function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");
}

/** Rewrites the links of a page that the site would otherwise not have. */
export function siteLinks(md: MarkdownIt): void {
  md.core.ruler.push("site-links", ({ tokens, env }) => {
    for (const token of tokens.flatMap((token) => [token, ...(token.children ?? [])])) {
      const href = token.type === "link_open" ? token.attrGet("href") : null;
      if (href !== null) token.attrSet("href", linkOf(href, dirname(env.path)));
      // Vue takes `images/x.webp` in HTML for a package.
      if (token.type.startsWith("html_"))
        token.content = token.content.replace(/\b(src|srcset)="(?=\w[^":]*")/g, '$1="./');
    }
  });
}

function linkOf(href: string, folder: string): string {
  if (/^([a-z]+:|#)/.test(href)) return href;
  const [path = "", anchor] = href.split("#");
  const file = resolve(folder, path);
  if (file.startsWith(`${docs}/`)) return href.replace(/(^|\/)README\.md/, "$1index.md");
  const inRoot = relative(root, file);
  if (!existsSync(file) || anchor !== undefined)
    throw new Error(`${folder} links to ${href}, which the site cannot have`);
  copied.add(inRoot);
  return `/${copyOf(inRoot)}`;
}

/** With a suffix that every server and browser shows as text. */
function copyOf(path: string): string {
  return `files/${path}.txt`;
}

export function copyLinkedFiles(outDir: string): void {
  for (const path of copied) {
    const copy = join(outDir, copyOf(path));
    mkdirSync(dirname(copy), { recursive: true });
    copyFileSync(join(root, path), copy);
  }
}

/** Throws if a link of the built site leads nowhere: to no file, or to no heading of it. */
export function checkLinks(outDir: string, base: string): void {
  const pages = readdirSync(outDir, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".html"));
  const texts = new Map(pages.map((path) => [path, readFileSync(join(outDir, path), "utf8")]));
  const broken = [...texts].flatMap(([path, text]) =>
    [...text.matchAll(/\b(?:href|src)="([^"]+)"/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !leads(new URL(link, `http://site${base}${path}`)))
      .map((link) => `${path}: ${link}`),
  );
  if (broken.length > 0) throw new Error(`broken links:\n${broken.join("\n")}`);

  function leads({ host, pathname, hash }: URL): boolean {
    if (host !== "site") return true;
    const path = decodeURI(pathname.slice(base.length)).replace(/(^|\/)$/, "$1index.html");
    if (!existsSync(join(outDir, path))) return false;
    return hash === "" || (texts.get(path)?.includes(` id="${decodeURI(hash.slice(1))}"`) ?? false);
  }
}
