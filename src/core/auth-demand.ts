// What is asked of the token of a request: the rules by path and method, and the mode of all other requests.

/** From the one that asks for least to the one that asks for most. */
export const authModes = ["off", "presence", "tokens"] as const;

/** `off`: nothing. `presence`: one well-formed token, whoever sends it. `tokens`: one that is listed. */
export type AuthMode = (typeof authModes)[number];

export interface AuthDemand {
  readonly mode: AuthMode;
  /** A listed token must have all of them. */
  readonly scopes: readonly string[];
}

/** The requests that a rule is about, and what it asks of them. */
export interface AuthRule extends AuthDemand {
  /** As those of a policy: below the base path; a path that ends in "/" is a prefix, "*" stands for one segment; [] means all. */
  readonly paths: readonly string[];
  /** In upper case; [] means all. */
  readonly methods: readonly string[];
}

export interface AuthDemands {
  readonly mode: AuthMode;
  /** At most 32. The first that fits a request decides; `mode` holds for requests that none fits. */
  readonly rules: readonly AuthRule[];
}

/** Returns whether the tokens of some requests are verified. */
export function verifiesTokens({ mode, rules }: AuthDemands): boolean {
  return mode === "tokens" || rules.some((rule) => rule.mode === "tokens");
}

/** Returns what asks for all that either of the two asks for. */
export function stricterOf(a: AuthDemand, b: AuthDemand): AuthDemand {
  const { mode } = authModes.indexOf(a.mode) < authModes.indexOf(b.mode) ? b : a;
  return { mode, scopes: [...new Set([...a.scopes, ...b.scopes])] };
}
