// What depends on the check of tokens: the limited paths that it leaves open, and what is named that the list of tokens does
// not have.
import type { AuthMode, AuthRule, ListedTokens } from "../core/authentication.ts";
import { enumerate } from "../core/enumerate.ts";
import type { LimitOverride, Policy } from "../core/policy.ts";
import type { RequestSettings } from "../core/settings.ts";
import { coversMethods, coversPath, regionOf } from "./policies.ts";

/** Of the limited requests; each in words, such as "POST /v1/login". */
interface UncheckedPaths {
  /** Nobody asks for a token. */
  readonly open: readonly string[];
  /** A token is asked for, and nobody verifies it here. */
  readonly unverified: readonly string[];
}

export function uncheckedPaths({ auth, routes }: RequestSettings): UncheckedPaths {
  const rest = { paths: [], methods: [], mode: auth.mode, scopes: [] };
  const inOrder: readonly AuthRule[] = [...auth.rules, rest];
  const isDecided = (path: string, { methods }: AuthRule, i: number): boolean =>
    inOrder
      .slice(0, i)
      .some((earlier) => coversPath(earlier.paths, path) && coversMethods(earlier, { paths: [], methods }));
  const of = (mode: AuthMode): string[] => {
    const found = inOrder.flatMap((rule, i) => {
      const paths = rule.mode === mode ? regionOf(rule, routes).filter((path) => !isDecided(path, rule, i)) : [];
      return paths.map((path) => [...(rule.methods.length === 0 ? [] : [rule.methods.join(",")]), path].join(" "));
    });
    return [...new Set(found)];
  };
  return { open: of("off"), unverified: of("presence") };
}

/** For `headgate check`: comments behind the configuration. */
export function uncheckedLines(settings: RequestSettings): string[] {
  const { open, unverified } = uncheckedPaths(settings);
  return [
    ...(open.length === 0 ? [] : [`# limited, and no token is asked for: ${enumerate(open, "and")}`]),
    ...(unverified.length === 0
      ? []
      : [`# limited, and nobody verifies the token here: ${enumerate(unverified, "and")}`]),
  ];
}

/** What the configuration names and the list of tokens does not have. */
interface Unlisted {
  /** Dotted. */
  readonly key: string;
  readonly detail: string;
  /** Stays the same when a reload moves the rule, the override or its policy to another place of the list. */
  readonly id: string;
}

/** `tokens`: null if there is no list. */
export function unlisted({ auth, policies }: RequestSettings, tokens: ListedTokens | null): Unlisted[] {
  if (tokens === null) return [];
  return [...unlistedScopes(auth.rules, tokens), ...unlistedOverrides(policies, tokens)];
}

function unlistedScopes(rules: readonly AuthRule[], tokens: ListedTokens): Unlisted[] {
  return rules.flatMap(({ paths, methods, scopes }, i) =>
    scopes.length === 0 || tokens.hasScopes(scopes)
      ? []
      : [
          {
            key: `auth.rules.${i}.scopes`,
            detail: "auth.tokensFile has no token with all of these scopes, so every listed token is answered 403 here",
            id: JSON.stringify(["scopes", paths, methods, scopes]),
          },
        ],
  );
}

function unlistedOverrides(policies: readonly Policy[], tokens: ListedTokens): Unlisted[] {
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
