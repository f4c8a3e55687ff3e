// The check of bearer tokens: the mode, the rules for some paths, and which limited paths they leave open. Also the scopes
// of rules, and the overrides of policies, that name what the list of tokens does not have.
import {
  type AuthDemands,
  type AuthMode,
  type AuthRule,
  authModes,
  type ListedTokens,
  verifiesTokens,
} from "../core/authentication.ts";
import { enumerate } from "../core/enumerate.ts";
import type { LimitOverride, Policy } from "../core/policy.ts";
import type { Settings } from "../core/settings.ts";
import { listOf, type Parsed, required, section, shownIfWritten, type WordsOfOthers } from "./definition.ts";
import { choice, filePath, repeatedItems, text } from "./leaves.ts";
import { coversMethods, coversPath, matchKeys, mayBeUnder, outOfRoutes, overlap, regionOf } from "./policies.ts";
import type { Refuse } from "./written.ts";

/** The modes of the contract that are not supported yet. */
const laterModes = ["jwt", "introspection"];

const wordsForRule: WordsOfOthers = {
  "path route routes location prefix": ["paths"],
  "method verbs": ["methods"],
  "auth require type": ["mode"],
  "public anonymous open skip": "write mode: off",
};

const rule = section(
  "What is asked of some requests, instead of mode.",
  {
    ...matchKeys,
    mode: required(choice("off", authModes, "What is asked of these requests, as in mode.", laterModes)),
    scopes: listOf(
      text(
        "read",
        {
          expected: "a scope of at most 128 printable ASCII characters without \\, commas, quotes and blanks",
          pattern: "^[!$-+\\--\\[\\]-~]{1,128}$",
        },
        "A scope as in tokensFile.",
      ),
      16,
      { items: "scopes", flaws: repeatedItems },
      "With mode tokens: scopes that the token must have, all of them.",
    ),
  },
  wordsForRule,
);

const wordsForAuth: WordsOfOthers = {
  "exclude except skip public publicPaths skipPaths allow whitelist bypass exempt": ["rules"],
  "tokens file list": ["tokensFile"],
};

export const auth = section(
  "The check of bearer tokens.",
  {
    mode: choice(
      "presence",
      authModes,
      "off checks nothing, presence requires a well-formed token, tokens requires one listed in tokensFile.",
      laterModes,
    ),
    rules: shownIfWritten(
      listOf(
        rule,
        32,
        { expected: "a list of at most 32 rules, such as [{ paths: [/v1/login], mode: off }]" },
        "Another mode for some requests; the first rule that fits decides, and mode if none does.",
      ),
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
  },
  wordsForAuth,
);

interface AuthInContext {
  readonly auth: Parsed<typeof auth>;
  readonly routes: readonly string[];
  readonly basePath: string;
}

export function judgeAuth({ auth, routes, basePath }: AuthInContext, refuse: Refuse): void {
  const { mode, rules, tokensFile } = auth;
  const verifying = rules.findIndex((rule) => rule.mode === "tokens");
  const modes = ["auth.mode", ...rules.map((_, i) => `auth.rules.${i}.mode`)];
  if (verifiesTokens(auth) && tokensFile === null) {
    const key = mode === "tokens" ? "auth.mode" : `auth.rules.${verifying}.mode`;
    refuse("auth.tokensFile", `the path of a file, since ${key} is tokens; name the file, or change ${key}`, ...modes);
  }
  if (!verifiesTokens(auth) && tokensFile !== null) {
    const expected = `none, since auth.mode is ${mode}${rules.length === 0 ? "" : ", and no rule has tokens"}`;
    refuse("auth.tokensFile", `${expected}; remove it, or set auth.mode to tokens`, ...modes);
  }
  for (const [i, rule] of rules.entries()) {
    for (const [j, path] of rule.paths.entries()) {
      if (routes.some((route) => mayBeUnder(path, route))) continue;
      const { expected, others } = outOfRoutes(path, routes, basePath);
      refuse(`auth.rules.${i}.paths.${j}`, expected, ...others);
    }
    if (rule.scopes.length > 0 && rule.mode !== "tokens") {
      const expected = `none, since mode is ${rule.mode}, where nobody knows the scopes; remove it, or set mode to tokens`;
      refuse(`auth.rules.${i}.scopes`, expected, `auth.rules.${i}.mode`);
    }
    const first = rules.findIndex((other, j) => j < i && coversRule(other, rule, routes));
    if (first === -1) continue;
    const expected = `none for requests that auth.rules.${first} decides about; move it up, or remove one of the two`;
    refuse(`auth.rules.${i}`, expected, `auth.rules.${first}`);
  }
}

function coversRule(outer: AuthRule, inner: AuthRule, routes: readonly string[]): boolean {
  return regionOf(inner, routes).every((path) => coversPath(outer.paths, path)) && coversMethods(outer, inner);
}

/** The modes of all requests that `match` may be about. */
export function modesOver(
  { auth, routes }: { readonly auth: AuthDemands; readonly routes: readonly string[] },
  match: Pick<AuthRule, "paths" | "methods">,
): ReadonlySet<AuthMode> {
  const modes = new Set<AuthMode>();
  for (const path of regionOf(match, routes)) {
    const fitting = auth.rules.filter(
      ({ paths, methods }) =>
        (paths.length === 0 || paths.some((each) => overlap(each, path))) &&
        (methods.length === 0 ||
          match.methods.length === 0 ||
          match.methods.some((method) => methods.includes(method))),
    );
    const last = fitting.findIndex((rule) => coversPath(rule.paths, path) && coversMethods(rule, match));
    for (const { mode } of last === -1 ? [...fitting, auth] : fitting.slice(0, last + 1)) modes.add(mode);
  }
  return modes;
}

/** Of the limited requests; each in words, such as "POST /v1/login". */
export interface UncheckedPaths {
  /** Nobody asks for a token. */
  readonly open: readonly string[];
  /** A token is asked for, and nobody verifies it here. */
  readonly unverified: readonly string[];
}

export function uncheckedPaths({ auth, routes }: Pick<Settings, "auth" | "routes">): UncheckedPaths {
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
export function uncheckedLines(settings: Pick<Settings, "auth" | "routes">): string[] {
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
export function unlisted(
  { auth, policies }: Pick<Settings, "auth" | "policies">,
  tokens: ListedTokens | null,
): Unlisted[] {
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
