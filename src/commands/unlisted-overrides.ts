// Warns of overrides that name a token or a subject which the list of tokens does not have: it may be misspelled, or be
// the token itself. No value is shown. It is no error, because the file may get the token later.
import type { TokenList } from "../auth/token-list.ts";
import type { LimitOverride, Policy } from "../core/policy.ts";

/** One line each. `place`: the place of a key and the key. */
export function unlistedOverrides(
  policies: readonly Policy[],
  tokens: TokenList | null,
  place: (key: string) => string,
): string[] {
  if (tokens === null) return [];
  const names = tokens.names();
  const isListed = ({ part, value }: LimitOverride): boolean => {
    if (part === "client" || part === "header") return true;
    return names.has(value) || (part === "token" && /^[0-9a-f]{64}$/.test(value) && tokens.hasDigest(value));
  };
  return policies.flatMap(({ overrides }, i) =>
    overrides.flatMap((override, j) => {
      if (isListed(override)) return [];
      const at = place(`policies.${i}.overrides.${j}.${override.part}`);
      return [
        `${at}: warning: auth.tokensFile has no token of this name${override.part === "token" ? " or digest" : ""}`,
      ];
    }),
  );
}
