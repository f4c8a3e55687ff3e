// Says which policies are asked after the token check.
import type { Policy } from "./policy.ts";

/**
 * Returns whether a policy needs a verified identity. `tokensAreVerified`: the authenticator verifies tokens; otherwise
 * the token is read before the check, because any well-formed one passes it.
 */
export function needsIdentity({ key, overrides }: Policy, tokensAreVerified: boolean): boolean {
  const kinds = [...key.map(({ kind }) => kind), ...overrides.map(({ part }) => part)];
  return kinds.some((kind) => kind === "subject" || kind === "claim" || (kind === "token" && tokensAreVerified));
}
