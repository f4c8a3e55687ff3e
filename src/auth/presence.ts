// The modes without a list of tokens: `off` admits every request, `presence` every request with one well-formed bearer
// token. Whether that token is valid is for the upstream to say.
import type { Authenticator, AuthOutcome } from "../core/authenticator.ts";
import type { BearerCredential } from "../core/bearer.ts";

export const offAuthenticator: Authenticator = { authenticate: () => "skipped", tokens: () => null, close: () => {} };

export const presenceAuthenticator: Authenticator = { authenticate: presence, tokens: () => null, close: () => {} };

export function presence(credential: BearerCredential): AuthOutcome {
  switch (credential.kind) {
    case "token":
      return "accepted";
    case "missing":
      return "missing";
    case "malformed":
      return "invalid";
  }
}
