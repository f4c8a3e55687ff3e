// A file of tokens: SHA-256 digests in hex, one per line, each with its scopes, its end, and its name as a comment. Never
// quotes what it refuses, because somebody may have written the token itself in place of its digest.

import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Identity } from "../core/authentication.ts";
import type { FileGroup, LineFlaw } from "../core/file-group.ts";

const expectedDigest = 'a SHA-256 digest of 64 hex digits, as "headgate token" prints it';
const expectedScopes = "scopes such as scopes=read,export";
const expectedEnd = "an instant such as expires=2027-01-31T00:00:00Z";
const expectedBehind = 'only scopes=read,export, expires=2027-01-31T00:00:00Z and "# name" there';
const expectedLine = 'what "headgate token" prints behind "line:"';

/** A start without a digest is a mistake; a file that is emptied later revokes every token. */
export function tokensFile(key: string, path: string | null): FileGroup<TokenList> {
  return {
    paths: { [key]: path },
    parse(texts, isStart) {
      const text = texts[key];
      if (text === undefined) return { ok: false, flaws: [] };
      const { tokens, errors } = parseTokens(text);
      if (!isStart && text === "") errors.push(flaw(1, "an empty file (a comment alone revokes all tokens)"));
      if (isStart && tokens.length + errors.length === 0) errors.push(flaw(1, "no digest in the file"));
      if (errors.length === 0) return { ok: true, value: new TokenList(tokens) };
      return { ok: false, flaws: errors.map((error) => ({ key, ...error })) };
    },
  };
}

/** The same for the secrets of ingresses, which have neither scopes nor an end. */
export function secretsFile(key: string, path: string | null): FileGroup<TokenList> {
  const group = tokensFile(key, path);
  return {
    ...group,
    parse(texts, isStart) {
      const reading = group.parse(texts, isStart);
      const { tokens } = parseTokens(texts[key] ?? "");
      const flaws = tokens.flatMap(({ line, scopes, endsMs }) =>
        scopes.length > 0 || endsMs !== null ? [{ key, ...flaw(line, "a secret with scopes or an end") }] : [],
      );
      return reading.ok && flaws.length > 0 ? { ok: false, flaws } : reading;
    },
  };
}

/** A name has at most so many characters; what follows is cut off. */
const maxNameLength = 64;

interface TokenLine extends Required<ListedToken> {
  readonly line: number;
}

/**
 * Digests in lower case. Behind a digest stand `scopes=` and `expires=`, in any order, and the token's name as a comment.
 * Blank lines and other comments are ignored. Of two lines with one digest, the second must not differ in scopes or end.
 */
export function parseTokens(text: string): { readonly tokens: TokenLine[]; readonly errors: LineFlaw[] } {
  const byDigest = new Map<string, TokenLine>();
  const tokens: TokenLine[] = [];
  const errors: LineFlaw[] = [];
  for (const [index, written] of text
    .replace(/^\uFEFF/, "")
    .split(/\r\n|\n|\r/)
    .entries()) {
    const token = parseLine(written, index + 1);
    if (token === null) continue;
    if (!("digest" in token)) {
      errors.push(token);
      continue;
    }
    const first = byDigest.get(token.digest);
    if (first !== undefined && (first.endsMs !== token.endsMs || first.scopes.join() !== token.scopes.join())) {
      const found = `the digest of line ${first.line} with other scopes or another end`;
      errors.push({ line: token.line, found, expected: "each digest once" });
    }
    byDigest.set(token.digest, first ?? token);
    tokens.push(token);
  }
  return { tokens, errors };
}

/** Null for a line without a digest. */
function parseLine(written: string, line: number): TokenLine | LineFlaw | null {
  const commentAt = written.indexOf("#");
  const entry = (commentAt === -1 ? written : written.slice(0, commentAt)).trim();
  if (entry === "") return null;
  const name = commentAt === -1 ? "" : nameIn(written.slice(commentAt + 1));
  if (/^(line|sha256):\s*[0-9a-f]{64}(\s|$)/i.test(entry)) {
    return { line, found: "a label before the digest", expected: expectedLine };
  }
  const [digest = "", ...terms] = entry.split(/\s+/);
  if (!/^[0-9a-f]{64}$/i.test(digest)) return flaw(line, describe(entry));
  if (!terms.every((term) => /^(scopes|expires)=/.test(term))) {
    return { line, found: "text behind the digest", expected: expectedBehind };
  }
  const given = new Map(terms.map((term) => [term.slice(0, term.indexOf("=")), term.slice(term.indexOf("=") + 1)]));
  if (given.size < terms.length) return { line, found: "scopes or an end twice", expected: "each once" };
  const scopes = parseScopes(given.get("scopes"));
  if (scopes === null) return { line, found: "scopes that are none", expected: expectedScopes };
  const endsMs = parseEnd(given.get("expires"));
  if (Number.isNaN(endsMs)) return { line, found: "an end that is no instant", expected: expectedEnd };
  return { line, digest: digest.toLowerCase(), name: name === "" ? null : name, scopes, endsMs };
}

/** As RFC 6749 has them (section 3.3), but for the comma. */
const scopeToken = /^[!$-+\--[\]-~]{1,128}$/;

/** Null if they are not well-formed. */
export function parseScopes(text: string | undefined): readonly string[] | null {
  if (text === undefined) return [];
  const scopes = [...new Set(text.split(","))];
  return scopes.every((scope) => scopeToken.test(scope)) ? scopes : null;
}

/** Null: none. NaN: no instant. */
function parseEnd(text: string | undefined): number | null {
  if (text === undefined) return null;
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/.test(text)) return Number.NaN;
  const endsMs = Date.parse(text);
  // "2027-02-30" would be a day in March.
  return !Number.isNaN(endsMs) && writtenEnd(endsMs) === text ? endsMs : Number.NaN;
}

/** The end of a token as its line has it. */
export function writtenEnd(endsMs: number): string {
  return new Date(endsMs).toISOString().replace(/\.\d{3}Z$/, "Z");
}

function nameIn(comment: string): string {
  return [...comment.trim()].slice(0, maxNameLength).join("").trim();
}

function flaw(line: number, found: string): LineFlaw {
  return { line, found, expected: expectedDigest };
}

function describe(entry: string): string {
  const { length } = [...entry];
  const kind = /\s/.test(entry) ? "with blanks between them " : "";
  return length === 1
    ? "1 character that is no SHA-256 digest"
    : `${length} characters ${kind}that are no SHA-256 digest`;
}

interface ListedToken {
  /** SHA-256, in hex. */
  readonly digest: string;
  /** Several tokens may have the same name. */
  readonly name: string | null;
  /** Absent: none. */
  readonly scopes?: readonly string[];
  /** The instant from which on it is refused, in Unix milliseconds; null or absent: it has no end. */
  readonly endsMs?: number | null;
}

interface ListedIdentity {
  readonly digest: Buffer;
  /** Made once, because each request of the token has it. */
  readonly identity: Identity;
}

const noClaims: ReadonlyMap<string, string> = new Map();

/**
 * The tokens that pass where `tokens` is asked for, known by their SHA-256 digests. The tokens themselves are neither
 * stored here nor compared.
 */
export class TokenList {
  // Digests are looked up by a text that nobody outside this process can predict, so the time of a lookup does not show
  // how much of a guess was right. The digests themselves are then compared in constant time.
  readonly #pepper = randomBytes(32);
  readonly #entries = new Map<string, ListedIdentity>();
  #names: ReadonlySet<string> | null = null;

  /** Of two names for one digest, the first counts. */
  constructor(tokens: readonly ListedToken[]) {
    for (const { digest: hex, name, scopes = [], endsMs = null } of tokens) {
      const digest = Buffer.from(hex, "hex");
      const lookupKey = this.#lookupKeyOf(digest);
      const tokenName = this.#entries.get(lookupKey)?.identity.tokenName ?? name;
      const named = { tokenDigest: hex.toLowerCase(), tokenName, subject: tokenName };
      const identity: Identity = { ...named, scopes, endsMs, claims: noClaims };
      this.#entries.set(lookupKey, { digest, identity });
    }
  }

  get size(): number {
    return this.#entries.size;
  }

  endingBefore(beforeMs: number): readonly Identity[] {
    const identities = [...this.#entries.values()].map(({ identity }) => identity);
    return identities.filter(({ endsMs }) => endsMs !== null && endsMs < beforeMs);
  }

  /** Names of the listed tokens. Made once, because each rule about a token looks there. */
  names(): ReadonlySet<string> {
    this.#names ??= new Set([...this.#entries.values()].flatMap(({ identity }) => identity.tokenName ?? []));
    return this.#names;
  }

  *identities(): Iterable<Identity> {
    for (const { identity } of this.#entries.values()) yield identity;
  }

  hasDigest(hex: string): boolean {
    return this.#entries.has(this.#lookupKeyOf(Buffer.from(hex, "hex")));
  }

  hasScopes(wanted: readonly string[]): boolean {
    return [...this.#entries.values()].some(({ identity }) => wanted.every((scope) => identity.scopes.includes(scope)));
  }

  has(token: string): boolean {
    return this.find(token) !== null;
  }

  /** Returns whom a token stands for; null if it is not listed. */
  find(token: string): Identity | null {
    return this.ofDigest(hash("sha256", token, "buffer"));
  }

  /** The same by the digest of a token. */
  ofDigest(digest: Buffer): Identity | null {
    const entry = this.#entries.get(this.#lookupKeyOf(digest));
    return entry !== undefined && timingSafeEqual(entry.digest, digest) ? entry.identity : null;
  }

  #lookupKeyOf(digest: Buffer): string {
    return hash("sha256", Buffer.concat([this.#pepper, digest]), "base64");
  }
}
