// The tokens of the admin API: a file with a SHA-256 digest in hex on each line, then `read` or `write`, and the token's name
// as a comment. Never quotes what it refuses, because somebody may have written the token itself in place of its digest.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { FileGroup, LineFlaw } from "../core/file-group.ts";

/** `read` changes nothing. */
export const adminRoles = ["read", "write"] as const;

export type AdminRole = (typeof adminRoles)[number];

/** Who calls over the Unix socket, where no token is asked. */
export const socketCaller = "socket";

/** Whom a token stands for. */
export interface AdminIdentity {
  readonly name: string;
  readonly role: AdminRole;
}

interface ListedAdminToken extends AdminIdentity {
  /** SHA-256, in hex. */
  readonly digest: string;
}

export class AdminTokens {
  // Digests are looked up by a text that nobody outside this process can predict, so the time of a lookup does not show
  // how much of a guess was right. The digests themselves are then compared in constant time.
  readonly #pepper = randomBytes(32);
  readonly #entries = new Map<string, { readonly digest: Buffer; readonly identity: AdminIdentity }>();

  constructor(tokens: readonly ListedAdminToken[]) {
    for (const { digest: hex, name, role } of tokens) {
      const digest = Buffer.from(hex, "hex");
      this.#entries.set(this.#lookupKeyOf(digest), { digest, identity: { name, role } });
    }
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Returns whom the token stands for; null if it is not listed. */
  find(token: string): AdminIdentity | null {
    const digest = hash("sha256", token, "buffer");
    const entry = this.#entries.get(this.#lookupKeyOf(digest));
    return entry !== undefined && timingSafeEqual(entry.digest, digest) ? entry.identity : null;
  }

  #lookupKeyOf(digest: Buffer): string {
    return hash("sha256", Buffer.concat([this.#pepper, digest]), "base64");
  }
}

const expectedLine = "a SHA-256 digest of 64 hex digits, then read or write, then # and a name";

/** A start without a digest is a mistake; a file of comments alone revokes every token later. */
export function adminTokensFile(path: string | null): FileGroup<AdminTokens> {
  const key = "admin.tokensFile";
  return {
    paths: { [key]: path },
    parse(texts, isStart) {
      const text = texts[key];
      if (text === undefined) return { ok: false, flaws: [] };
      const { tokens, flaws } = parseAdminTokens(text);
      if (!isStart && text === "") flaws.push(flaw(1, "an empty file (a comment alone revokes all tokens)"));
      if (isStart && tokens.length + flaws.length === 0) flaws.push(flaw(1, "no digest in the file"));
      if (flaws.length > 0) return { ok: false, flaws: flaws.map((each) => ({ key, ...each })) };
      return { ok: true, value: new AdminTokens(tokens) };
    },
  };
}

const maxNameLength = 64;

/** Digests in lower case. Blank lines and lines that are comments are ignored. */
export function parseAdminTokens(text: string): {
  readonly tokens: readonly ListedAdminToken[];
  readonly flaws: LineFlaw[];
} {
  const tokens: ListedAdminToken[] = [];
  const flaws: LineFlaw[] = [];
  const lines = new Map<string, number>();
  const written = text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  for (const [index, line] of written.entries()) {
    const token = parseLine(line, index + 1);
    if (token === null) continue;
    if (!("digest" in token)) {
      flaws.push(token);
      continue;
    }
    const first = lines.get(token.digest);
    if (first !== undefined) flaws.push(flaw(index + 1, `the digest of line ${first} again`, "each digest once"));
    lines.set(token.digest, first ?? index + 1);
    tokens.push(token);
  }
  return { tokens, flaws };
}

/** Null for a line without a token. */
function parseLine(written: string, line: number): ListedAdminToken | LineFlaw | null {
  const [, entry = "", comment] = /^([^#]*)(?:#(.*))?$/.exec(written) ?? [];
  const [digest = "", role = "", ...rest] = entry.trim().split(/\s+/);
  if (digest === "") return null;
  if (!/^[0-9a-f]{64}$/i.test(digest)) return flaw(line, "no SHA-256 digest at its beginning");
  if (role !== "read" && role !== "write") return flaw(line, role === "" ? "no role" : "an unknown role");
  if (rest.length > 0) return flaw(line, "more than a digest and a role");
  const name = [...(comment ?? "").trim()].slice(0, maxNameLength).join("").trim();
  if (name === "") return flaw(line, "no name");
  if (name === socketCaller) return flaw(line, "the name socket", "a name that does not stand for the Unix socket");
  return { digest: digest.toLowerCase(), role, name };
}

function flaw(line: number, found: string, expected = expectedLine): LineFlaw {
  return { line, found, expected };
}
