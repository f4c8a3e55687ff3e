// The file behind mode `tokens`: read before the start, reread when it changes. While its text is wrong or the file is
// away, the list from before stays in use and the mistake is reported once; a file that was emptied revokes every
// token.

import type { Authenticator, AuthOutcome } from "../core/authenticator.ts";
import type { BearerCredential } from "../core/bearer.ts";
import { asError } from "../core/failure.ts";
import type { ReadFile } from "../core/read-file.ts";
import { presence } from "./presence.ts";
import { TokenList } from "./token-list.ts";
import { noDigest, parseTokens, type TokenLineError } from "./tokens-file.ts";

export interface TokenFileEvents {
  readonly onReload: (tokens: number) => void;
  /** The list in use is the one from before. */
  readonly onError: (why: TokenFileError) => void;
}

/** The file cannot be read, or these lines of it are wrong. */
export type TokenFileError =
  | { readonly kind: "unreadable"; readonly cause: Error }
  | { readonly kind: "invalid"; readonly errors: readonly TokenLineError[] };

export class TokenFileProblem extends Error {
  readonly why: TokenFileError;
  /** The setting that names the file. */
  readonly key: "auth.tokensFile" | "extAuth.secretsFile";

  constructor(why: TokenFileError, key: TokenFileProblem["key"] = "auth.tokensFile") {
    super("The tokens file cannot be used.", why.kind === "unreadable" ? { cause: why.cause } : undefined);
    this.why = why;
    this.key = key;
  }
}

/**
 * How often the file is read. Plain reading sees a file written in place, replaced, or swapped with the volume it is
 * mounted from, on any file system; notices from the kernel miss some of these.
 */
const defaultRereadMs = 1000;

/** Reads the file, and again and again. Rejects with a TokenFileProblem if it cannot be used to begin with. */
export async function verifyByTokensFile(
  path: string,
  readFile: ReadFile,
  events: TokenFileEvents,
  rereadMs = defaultRereadMs,
): Promise<Authenticator> {
  // Null while the file is away: then only its return is news.
  let text: string | null = await readTokenText(path, readFile);
  let list = parseList(text);
  if (list.size === 0) throw new TokenFileProblem({ kind: "invalid", errors: [noDigest] });
  let isCurrent = true;
  let isClosed = false;
  const reread = async (): Promise<void> => {
    try {
      const newText = await readTokenText(path, readFile);
      if (isClosed || newText === text) return;
      text = newText;
      list = parseList(newText);
      isCurrent = true;
      events.onReload(list.size);
    } catch (error) {
      if (!(error instanceof TokenFileProblem)) throw error;
      const isAway = error.why.kind === "unreadable";
      if (isClosed || (isAway && text === null)) return;
      if (isAway) text = null;
      isCurrent = false;
      events.onError(error.why);
    }
  };
  const rereadLater = (): NodeJS.Timeout =>
    setTimeout(async () => {
      await reread();
      if (!isClosed) timer = rereadLater();
    }, rereadMs).unref();
  let timer = rereadLater();
  return {
    verify: (credential: BearerCredential): AuthOutcome => {
      if (credential.kind !== "token") return presence(credential);
      return list.has(credential.token) ? "accepted" : "invalid";
    },
    tokens: () => ({ listed: list.size, isCurrent }),
    close: () => {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

async function readTokenText(path: string, readFile: ReadFile): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new TokenFileProblem({ kind: "unreadable", cause: asError(error) });
  }
}

function parseList(text: string): TokenList {
  const parsed = parseTokens(text);
  if (!parsed.ok) throw new TokenFileProblem({ kind: "invalid", errors: parsed.errors });
  return new TokenList(parsed.digests);
}
