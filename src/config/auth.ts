// The check of bearer tokens: the mode, and the rules for some paths.
import { type AuthRule, authModes, verifiesTokens } from "../core/authentication.ts";
import { listOf, type Parsed, required, section, shownIfWritten, type WordsOfOthers } from "./definition.ts";
import { choice, filePath, repeatedItems, text } from "./leaves.ts";
import { coversMethods, coversPath, matchKeys, refuseOutOfRoutes, regionOf } from "./policies.ts";
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
    mode: required(choice("off", authModes, laterModes)("What is asked of these requests, as in mode.")),
    scopes: listOf(
      text("read", {
        expected: "a scope of at most 128 printable ASCII characters without \\, commas, quotes and blanks",
        pattern: "^[!$-+\\--\\[\\]-~]{1,128}$",
      })("A scope as in tokensFile."),
      16,
      { items: "scopes", flaws: repeatedItems },
    )("With mode tokens: scopes that the token must have, all of them."),
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
      laterModes,
    )("off checks nothing, presence requires a well-formed token, tokens requires one listed in tokensFile."),
    rules: shownIfWritten(
      listOf(rule, 32, { expected: "a list of at most 32 rules, such as [{ paths: [/v1/login], mode: off }]" })(
        "Another mode for some requests; the first rule that fits decides, and mode if none does.",
      ),
    ),
    realm: text("finance", {
      expected: 'at most 128 printable ASCII characters without \\ and "',
      pattern: "^[ !#-\\[\\]-~]{1,128}$",
    })("Realm in the WWW-Authenticate header."),
    tokensFile: filePath("SHA-256 digests of the accepted tokens, for mode tokens."),
  },
  wordsForAuth,
);

interface AuthInContext {
  readonly auth: Parsed<typeof auth>;
  readonly routes: readonly string[];
  readonly basePath: string;
}

export function validateAuth(context: AuthInContext, refuse: Refuse): void {
  validateTokensFile(context, refuse);
  for (const [i, rule] of context.auth.rules.entries()) validateRule(i, rule, context, refuse);
}

function validateTokensFile({ auth }: AuthInContext, refuse: Refuse): void {
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
}

function validateRule(i: number, rule: AuthRule, context: AuthInContext, refuse: Refuse): void {
  refuseOutOfRoutes(`auth.rules.${i}.paths`, rule.paths, context, refuse);
  if (rule.scopes.length > 0 && rule.mode !== "tokens") {
    const expected = `none, since mode is ${rule.mode}, where nobody knows the scopes; remove it, or set mode to tokens`;
    refuse(`auth.rules.${i}.scopes`, expected, `auth.rules.${i}.mode`);
  }
  const first = context.auth.rules.findIndex((other, j) => j < i && coversRule(other, rule, context.routes));
  if (first === -1) return;
  const expected = `none for requests that auth.rules.${first} decides about; move it up, or remove one of the two`;
  refuse(`auth.rules.${i}`, expected, `auth.rules.${first}`);
}

function coversRule(outer: AuthRule, inner: AuthRule, routes: readonly string[]): boolean {
  return regionOf(inner, routes).every((path) => coversPath(outer.paths, path)) && coversMethods(outer, inner);
}
