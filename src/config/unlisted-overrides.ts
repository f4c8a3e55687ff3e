// Finds overrides that name a token or a subject which the list of tokens does not have: it may be misspelled, or be the
// token itself. No value is shown. It is no error, because the file may get the token later.
import type { ListedTokens } from "../core/authenticator.ts";
import type { LimitOverride, Policy } from "../core/policy.ts";

export interface UnlistedOverride {
  /** Dotted. */
  readonly key: string;
  readonly detail: string;
  /** Stays the same when a reload moves the override or its policy to another place of the list. */
  readonly id: string;
}

/** `tokens`: null if there is no list. */
export function unlistedOverrides(policies: readonly Policy[], tokens: ListedTokens | null): UnlistedOverride[] {
  if (tokens === null) return [];
  const names = tokens.names();
  const isListed = ({ part, value }: LimitOverride): boolean => {
    if (part === "client" || part === "header") return true;
    return names.has(value) || (part === "token" && /^[0-9a-f]{64}$/.test(value) && tokens.hasDigest(value));
  };
  return policies.flatMap(({ name, overrides }, i) =>
    overrides.flatMap((override, j) => {
      if (isListed(override)) return [];
      const { part, value } = override;
      const what = `no token of this name${part === "token" ? " or digest" : ""}`;
      return [
        {
          key: `policies.${i}.overrides.${j}.${part}`,
          detail: `auth.tokensFile has ${what}, so this override applies to nobody`,
          id: JSON.stringify([name, part, value]),
        },
      ];
    }),
  );
}
