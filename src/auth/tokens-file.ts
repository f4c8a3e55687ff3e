// A file of tokens: SHA-256 digests in hex, one per line, each with the name of its token as a comment. Never quotes what it refuses, because somebody may have written
// the token itself in place of its digest.
import type { FileGroup } from "../core/file-group.ts";
import { type ListedToken, TokenList } from "./token-list.ts";

const expected = 'a SHA-256 digest of 64 hex digits, as "headgate token" prints it';

/** A start without a digest is a mistake; a file that is emptied later revokes every token. */
export function tokensFile(key: string, path: string | null): FileGroup<TokenList> {
  return {
    paths: { [key]: path },
    parse(texts, isStart) {
      const text = texts[key];
      if (text === undefined) return { ok: false, flaws: [] };
      const { tokens, errors } = parseTokens(text);
      if (!isStart && text === "")
        errors.push({ line: 1, found: "an empty file (a comment alone revokes all tokens)" });
      if (isStart && tokens.length + errors.length === 0) errors.push({ line: 1, found: "no digest in the file" });
      if (errors.length === 0) return { ok: true, value: new TokenList(tokens) };
      return { ok: false, flaws: errors.map((error) => ({ key, ...error, expected })) };
    },
  };
}

/** A name has at most so many characters; what follows is cut off. */
const maxNameLength = 64;

/** Digests in lower case. The comment behind a digest is the token's name; blank lines and other comments are ignored. */
export function parseTokens(text: string): { tokens: ListedToken[]; errors: { line: number; found: string }[] } {
  const tokens: ListedToken[] = [];
  const errors: { line: number; found: string }[] = [];
  for (const [index, line] of text
    .replace(/^\uFEFF/, "")
    .split(/\r\n|\n|\r/)
    .entries()) {
    const commentAt = line.indexOf("#");
    const entry = (commentAt === -1 ? line : line.slice(0, commentAt)).trim();
    if (entry === "") continue;
    const name = commentAt === -1 ? "" : nameIn(line.slice(commentAt + 1));
    if (/^[0-9a-f]{64}$/i.test(entry)) tokens.push({ digest: entry.toLowerCase(), name: name === "" ? null : name });
    else errors.push({ line: index + 1, found: describe(entry) });
  }
  return { tokens, errors };
}

function nameIn(comment: string): string {
  return [...comment.trim()].slice(0, maxNameLength).join("").trim();
}

function describe(entry: string): string {
  const { length } = [...entry];
  const kind = /\s/.test(entry) ? "with blanks between them " : "";
  return length === 1
    ? "1 character that is no SHA-256 digest"
    : `${length} characters ${kind}that are no SHA-256 digest`;
}
