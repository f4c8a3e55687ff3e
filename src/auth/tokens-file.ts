// A file of tokens: SHA-256 digests in hex, one per line. Never quotes what it refuses, because somebody may have written
// the token itself in place of its digest.
import type { FileGroup } from "../core/file-group.ts";
import { TokenList } from "./token-list.ts";

const expected = 'a SHA-256 digest of 64 hex digits, as "headgate token" prints it';

/** A start without a digest is a mistake; a file that is emptied later revokes every token. */
export function tokensFile(key: string, path: string | null): FileGroup<TokenList> {
  return {
    paths: { [key]: path },
    parse(texts, isStart) {
      const text = texts[key];
      if (text === undefined) return { ok: false, flaws: [] };
      const { digests, errors } = parseTokens(text);
      if (isStart && digests.length + errors.length === 0) errors.push({ line: 1, found: "no digest in the file" });
      if (errors.length === 0) return { ok: true, value: new TokenList(digests) };
      return { ok: false, flaws: errors.map((error) => ({ key, ...error, expected })) };
    },
  };
}

/** Digests in lower case. Blank lines and what follows a `#` are ignored. */
export function parseTokens(text: string): { digests: string[]; errors: { line: number; found: string }[] } {
  const digests: string[] = [];
  const errors: { line: number; found: string }[] = [];
  for (const [index, line] of text
    .replace(/^\uFEFF/, "")
    .split(/\r\n|\n|\r/)
    .entries()) {
    const entry = line.replace(/#.*$/s, "").trim();
    if (entry === "") continue;
    if (/^[0-9a-f]{64}$/i.test(entry)) digests.push(entry.toLowerCase());
    else errors.push({ line: index + 1, found: describe(entry) });
  }
  return { digests, errors };
}

function describe(entry: string): string {
  const { length } = [...entry];
  const kind = /\s/.test(entry) ? "with blanks between them " : "";
  return length === 1
    ? "1 character that is no SHA-256 digest"
    : `${length} characters ${kind}that are no SHA-256 digest`;
}
