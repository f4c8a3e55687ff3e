// The project's Markdown files, and what a reader can follow in them: links, and the anchors that GitHub makes of
// headings.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

export const root = resolve(import.meta.dirname, "../..");

const notOurs = new Set(["node_modules", "dist", ".git"]);

/** Paths relative to the root. */
export function markdownFiles(folder = root): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return notOurs.has(entry.name) ? [] : markdownFiles(path);
    return entry.name.endsWith(".md") ? [relative(root, path)] : [];
  });
}

export function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

export interface Link {
  readonly written: string;
  /** Relative to the root; the file itself for an anchor alone. */
  readonly file: string;
  /** Without its `#`; empty if there is none. */
  readonly anchor: string;
}

/** Links and images of a file that lead into the repository. */
export function relativeLinks(path: string): Link[] {
  const links = withoutCode(read(path)).matchAll(
    /\]\(\s*([^)\s]+)[^)]*\)|^\[[^\]]+\]:\s*(\S+)|\b(?:src|srcset|href)="([^"]+)"/gm,
  );
  return [...links]
    .map(([, inline, reference, attribute]) => inline ?? reference ?? attribute ?? "")
    .filter((written) => !/^[a-z]+:/.test(written))
    .map((written) => {
      const [file = "", anchor = ""] = written.split("#");
      return { written, file: file === "" ? path : join(dirname(path), file), anchor };
    });
}

/** The texts of the headings, without links. */
export function headingsOf(path: string): string[] {
  const headings = read(path)
    .replace(/^```.*?^```/gms, "")
    .matchAll(/^#{1,6} +(.+?) *$/gm);
  return [...headings].map(([, heading = ""]) => heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1"));
}

/** As GitHub makes them: of equal headings the second one ends in -1. */
export function anchorsOf(path: string): Set<string> {
  const anchors = new Set<string>();
  for (const heading of headingsOf(path)) {
    const slug = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, "")
      .replaceAll(" ", "-");
    let anchor = slug;
    for (let i = 1; anchors.has(anchor); i += 1) anchor = `${slug}-${i}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** The code of every fenced block in a language. */
export function codeBlocks(path: string, language: string): string[] {
  const fences = read(path).matchAll(/^( *)```(\w*)\n(.*?)^ *```/gms);
  return [...fences].filter(([, , name]) => name === language).map(([, , , code = ""]) => code);
}

function withoutCode(text: string): string {
  return text.replace(/^ *```.*?^ *```/gms, "").replace(/`[^`\n]*`/g, "");
}
