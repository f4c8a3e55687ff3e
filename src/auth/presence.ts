// The modes that ask nobody: `off` lets everyone pass, `presence` everyone who brings one well-formed bearer token.
// Whether the token is good is then for the upstream to say.

import type { Authenticator, AuthOutcome } from "../core/authenticator.ts";
import type { BearerCredential } from "../core/bearer.ts";

export const offVerifier: Authenticator = { verify: () => "skipped", tokens: () => null, close: () => {} };

export const presenceVerifier: Authenticator = { verify: presence, tokens: () => null, close: () => {} };

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
