// Checks the token of a request as its rule demands. Without a list of tokens nothing is verified.
import type { Authenticator, AuthOutcome } from "../core/authenticator.ts";
import type { BearerCredential } from "../core/bearer.ts";
import type { Watched } from "../core/file-group.ts";
import type { TokenList } from "./token-list.ts";

/** `file`: null if no rule demands a listed token. */
export function createAuthenticator(file: Watched<TokenList> | null): Authenticator {
  return {
    authenticate(credential, { mode }) {
      if (mode === "off") return "skipped";
      if (mode === "presence" || credential.kind !== "token") return presence(credential);
      return file?.value.find(credential.token) ?? "invalid";
    },
    tokens: () => file && { listed: file.value.size, isCurrent: file.isCurrent, list: file.value },
    close: () => file?.close(),
  };
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
