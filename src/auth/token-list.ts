// Mode `tokens`: a token passes if the SHA-256 digest of it is listed. The list comes from a file, is reread when the file changes, and
// stays as it was when the new text is wrong or the file is away. Tokens themselves are neither stored nor compared.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { unwatchFile, watch, watchFile } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { BearerCredential } from "../core/bearer.ts";
import type { AuthOutcome } from "../core/exchange.ts";
import type { Verifier } from "../core/verifier.ts";
import { presence } from "./presence.ts";
import { parseTokens, type TokenLineError } from "./tokens-file.ts";

export class TokenList {
  // Digests are looked up under a name that nobody outside this process can predict, so the time of a look-up says
  // nothing about how much of a guess was right; the digests themselves are then compared in constant time.
  readonly #pepper = randomBytes(32);
  readonly #digests = new Map<string, Buffer>();

  /** Hex, as the file has them. */
  constructor(digests: readonly string[]) {
    for (const hex of digests) {
      const digest = Buffer.from(hex, "hex");
      this.#digests.set(this.#nameOf(digest), digest);
    }
  }

  get size(): number {
    return this.#digests.size;
  }

  has(token: string): boolean {
    const digest = hash("sha256", token, "buffer");
    const listed = this.#digests.get(this.#nameOf(digest));
    return listed !== undefined && timingSafeEqual(listed, digest);
  }

  #nameOf(digest: Buffer): string {
    return hash("sha256", Buffer.concat([this.#pepper, digest]), "base64");
  }
}

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
  constructor(why: TokenFileError) {
    super("The tokens file cannot be used.", why.kind === "unreadable" ? { cause: why.cause } : undefined);
    this.why = why;
  }
}

/** Long enough for an editor to finish writing and for a mounted volume to swap its links. */
const settleMs = 100;
/** Where no notice comes from, a look this often finds the change. */
const lookMs = 1000;
/** After this long it is reread even if the folder, which others may use as well, does not come to rest. */
const patienceMs = 1000;

/** Reads the file and watches it. Rejects with a TokenFileProblem if it cannot be used to begin with. */
export async function watchTokenFile(path: string, events: TokenFileEvents): Promise<Verifier> {
  // Null while the file is away: then only its return is news.
  let text: string | null = await readTokenText(path);
  let list = parseList(text);
  const reread = async (): Promise<void> => {
    try {
      const newText = await readTokenText(path);
      if (newText === text) return;
      text = newText;
      list = parseList(newText);
      events.onReload(list.size);
    } catch (error) {
      if (!(error instanceof TokenFileProblem)) throw error;
      if (error.why.kind === "unreadable" && text === null) return;
      if (error.why.kind === "unreadable") text = null;
      events.onError(error.why);
    }
  };
  const watcher = watchChanges(path, () => void reread());
  return {
    verify: (credential: BearerCredential): AuthOutcome => {
      if (credential.kind !== "token") return presence(credential);
      return list.has(credential.token) ? "accepted" : "invalid";
    },
    close: () => watcher.close(),
  };
}

/**
 * The folder tells at once, of a file that was replaced as well. It tells nothing of links that a mounted volume swaps
 * further up, of a folder made anew, or on a network's file system: for those the file itself is looked at.
 */
function watchChanges(path: string, onSettled: () => void): { close(): void } {
  let settled: NodeJS.Timeout | undefined;
  let outOfPatience: NodeJS.Timeout | undefined;
  const stopTimers = (): void => {
    clearTimeout(settled);
    clearTimeout(outOfPatience);
    outOfPatience = undefined;
  };
  const settle = (): void => {
    stopTimers();
    onSettled();
  };
  const onChange = (): void => {
    clearTimeout(settled);
    settled = setTimeout(settle, settleMs);
    outOfPatience ??= setTimeout(settle, patienceMs);
  };
  const watcher = watch(dirname(path), { persistent: false }, onChange);
  watchFile(path, { interval: lookMs, persistent: false }, onChange);
  // A folder that goes away takes the watch with it; the list in use stays.
  watcher.on("error", settle);
  return {
    close: () => {
      stopTimers();
      watcher.close();
      unwatchFile(path, onChange);
    },
  };
}

async function readTokenText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new TokenFileProblem({
      kind: "unreadable",
      cause: error instanceof Error ? error : new Error(String(error)),
    });
  }
}

function parseList(text: string): TokenList {
  const parsed = parseTokens(text);
  if (!parsed.ok) throw new TokenFileProblem({ kind: "invalid", errors: parsed.errors });
  return new TokenList(parsed.digests);
}
