// The check of bearer tokens, and the overrides of policies that name tokens which the list does not have.
import type { ListedTokens } from "../core/authenticator.ts";
import type { LimitOverride, Policy } from "../core/policy.ts";
import { type Parsed, section } from "./definition.ts";
import { choice, filePath, text } from "./leaves.ts";
import type { Refuse } from "./written.ts";

export const auth = section("The check of bearer tokens.", {
  mode: choice(
    "presence",
    ["off", "presence", "tokens"],
    "off checks nothing, presence requires a well-formed token, tokens requires one listed in tokensFile.",
    ["jwt", "introspection"],
  ),
  realm: text(
    "finance",
    {
      expected: 'at most 128 printable ASCII characters without \\ and "',
      pattern: "^[ !#-\\[\\]-~]{1,128}$",
    },
    "Realm in the WWW-Authenticate header.",
  ),
  tokensFile: filePath("SHA-256 digests of the accepted tokens, for mode tokens."),
});

export function judgeAuth({ mode, tokensFile }: Parsed<typeof auth>, refuse: Refuse): void {
  if (mode === "tokens" && tokensFile === null) {
    const expected = "the path of a file, since auth.mode is tokens; name the file, or change auth.mode";
    refuse("auth.tokensFile", expected, "auth.mode");
  }
  if (mode !== "tokens" && tokensFile !== null) {
    const expected = `none, since auth.mode is ${mode}; remove it, or set auth.mode to tokens`;
    refuse("auth.tokensFile", expected, "auth.mode");
  }
}

interface UnlistedOverride {
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
