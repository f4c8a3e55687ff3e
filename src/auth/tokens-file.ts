// The text of a tokens file: SHA-256 digests in hex, one a line. Pure. Never repeats what it refuses: somebody may have
// put the token itself where its digest belongs.

export type ParsedTokens =
  | {
      readonly ok: true;
      /** Lower-case hex, in the order of the file. */
      readonly digests: string[];
    }
  | { readonly ok: false; readonly errors: TokenLineError[] };

export interface TokenLineError {
  /** From 1. */
  readonly line: number;
  readonly found: string;
  readonly expected: string;
}

const expected = 'a SHA-256 digest of 64 hex digits, as "headgate token" prints it';

/** Of a file in which there is none. Whoever starts with it made a mistake; whoever empties it revokes every token. */
export const noDigest: TokenLineError = { line: 1, found: "no digest in the file", expected };

/** Blank lines and what follows a `#` are ignored. */
export function parseTokens(text: string): ParsedTokens {
  const digests: string[] = [];
  const errors: TokenLineError[] = [];
  for (const [index, line] of text
    .replace(/^\uFEFF/, "")
    .split(/\r\n|\n|\r/)
    .entries()) {
    const entry = line.replace(/#.*$/s, "").trim();
    if (entry === "") continue;
    if (/^[0-9a-f]{64}$/i.test(entry)) digests.push(entry.toLowerCase());
    else errors.push({ line: index + 1, found: describe(entry), expected });
  }
  return errors.length > 0 ? { ok: false, errors } : { ok: true, digests };
}

function describe(entry: string): string {
  const { length } = [...entry];
  const kind = /\s/.test(entry) ? "with blanks between them " : "";
  return length === 1
    ? "1 character that is no SHA-256 digest"
    : `${length} characters ${kind}that are no SHA-256 digest`;
}
