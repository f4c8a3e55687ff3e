// Checks the token of a request as its rule demands. Without a list of tokens nothing is verified.
import { LRUCache } from "lru-cache";
import {
  type Authenticator,
  type AuthOutcome,
  type BearerCredential,
  endingSoonMs,
  type Identity,
} from "../core/authentication.ts";
import type { Clock } from "../core/clock.ts";
import type { Watched } from "../core/file-group.ts";
import { inOnePiece } from "../core/headers.ts";
import type { TokenList } from "./token-list.ts";

/** `file`: null if no rule demands a listed token. */
export function createAuthenticator(file: Watched<TokenList> | null, clock: Pick<Clock, "wallMs">): Authenticator {
  const known = new KnownTokens();
  return {
    authenticate(credential, { mode }) {
      if (mode === "off") return "skipped";
      if (mode === "presence" || credential.kind !== "token") return presence(credential);
      const identity = file === null ? null : known.find(credential.token, file.value);
      if (identity === null) return "invalid";
      return identity.endsMs !== null && clock.wallMs() >= identity.endsMs ? "expired" : identity;
    },
    isKnown: (credential, { mode }) => mode !== "tokens" || credential.kind !== "token" || known.has(credential.token),
    tokens() {
      if (file === null) return null;
      const { value: list, isCurrent } = file;
      return { listed: list.size, isCurrent, ending: () => endingSoon(list, clock).length, list };
    },
    close: () => file?.close(),
  };
}

export function endingSoon(list: TokenList, clock: Pick<Clock, "wallMs">): ReturnType<TokenList["endingBefore"]> {
  return list.endingBefore(clock.wallMs() + endingSoonMs);
}

/** Whether a well-formed token is valid is for the upstream to say. */
function presence({ kind }: BearerCredential): AuthOutcome {
  switch (kind) {
    case "token":
      return "accepted";
    case "missing":
      return "missing";
    case "malformed":
      return "invalid";
  }
}

interface KnownToken {
  readonly list: TokenList;
  readonly identity: Identity;
}

/**
 * The listed tokens that were used last, so that they are not hashed again with each request. Nobody can fill it with tokens
 * that are not listed. It is found by V8's hash of the text, which is seeded: the time of a lookup says nothing of a guess.
 */
class KnownTokens {
  /** The size of an entry is that of its token. */
  readonly #tokens = new LRUCache<string, KnownToken>({
    max: 4096,
    maxSize: 4 * 1024 * 1024,
    sizeCalculation: (_, token) => token.length,
  });

  has(token: string): boolean {
    return this.#tokens.has(token);
  }

  /** Returns whom a token stands for; null if it is not in the list. */
  find(token: string, list: TokenList): Identity | null {
    const known = this.#tokens.get(token);
    if (known !== undefined && known.list === list) return known.identity;
    // A new version of the list may have another name for the token, or not have it any more.
    const identity =
      known === undefined ? list.find(token) : list.ofDigest(Buffer.from(known.identity.tokenDigest, "hex"));
    // A text that was cut out of a head would keep all of it in memory.
    if (identity !== null) this.#tokens.set(inOnePiece(token), { list, identity });
    else if (known !== undefined) this.#tokens.delete(token);
    return identity;
  }
}
