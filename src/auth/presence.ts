// The modes that ask nobody: `off` lets everyone pass, `presence` everyone who brings one well-formed bearer token.
// Whether the token is good is then for the upstream to say.
import type { BearerCredential } from "../core/bearer.ts";
import type { AuthOutcome } from "../core/exchange.ts";
import type { Verifier } from "../core/verifier.ts";

export const offVerifier: Verifier = { verify: () => "skipped", tokens: () => null, close: () => {} };

export const presenceVerifier: Verifier = { verify: presence, tokens: () => null, close: () => {} };

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
