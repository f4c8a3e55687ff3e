// Finds the rule that says what is asked of a request's token, and checks the token as it demands. Without a list of
// tokens nothing is verified.
import { LRUCache } from "lru-cache";
import {
  type AuthDemand,
  type AuthDemands,
  type Authenticator,
  type AuthOutcome,
  type AuthRule,
  type BearerCredential,
  endingSoonMs,
  type Identity,
  stricterOf,
} from "../core/authentication.ts";
import type { WallClock } from "../core/clock.ts";
import type { Watched } from "../core/file-group.ts";
import { inOnePiece } from "../core/headers.ts";
import { type Fitting, MethodMatcher } from "../core/method.ts";
import { PathPatterns } from "../core/path-patterns.ts";
import type { DemandReader, ParsedRequest } from "../core/request-head.ts";
import type { TokenList } from "./tokens-file.ts";

/**
 * Finds the rule that decides what is asked of a request's token. Where backends may read the path or the method in
 * several ways, every rule that may fit is satisfied: no spelling of a path opens it, or asks for less than another
 * spelling.
 */
export function createDemandReader(auth: AuthDemands, routes: readonly string[], basePath: string): DemandReader {
  const { rules } = auth;
  const otherwise: AuthDemand = { mode: auth.mode, scopes: [] };
  if (rules.length === 0) return () => otherwise;
  const fittingPaths = createPathMatcher(rules, routes, basePath);
  const matcher = new MethodMatcher(rules);
  const find: DemandReader = (request, head) => {
    const paths = fittingPaths(request);
    const methods = matcher.fitting(head, request.target);
    const possibly = paths.possibly & methods.possibly;
    const certainly = paths.certainly & methods.certainly;
    let demand: AuthDemand | null = null;
    for (const [i, rule] of rules.entries()) {
      if ((possibly & (1 << i)) === 0) continue;
      demand = demand === null ? rule : stricterOf(demand, rule);
      if ((certainly & (1 << i)) !== 0) return demand;
    }
    return demand === null ? otherwise : stricterOf(demand, otherwise);
  };
  // What was parsed from a head that comes again is used again, and says the same.
  const known = new WeakMap<ParsedRequest, AuthDemand>();
  return (request, head) => {
    if (!head.memory) return find(request, head);
    const before = known.get(request);
    if (before !== undefined) return before;
    const demand = find(request, head);
    known.set(request, demand);
    return demand;
  };
}

function createPathMatcher(rules: readonly AuthRule[], routes: readonly string[], basePath: string) {
  const patterns = new PathPatterns(
    rules.flatMap(({ paths }, i) => paths.map((path) => ({ path, mask: 1 << i }))),
    basePath,
  );
  const anyPath = maskOf(rules, ({ paths }) => paths.length === 0);
  // A path that is under a route in every reading also is under each prefix of that route.
  const byRoute = new Map(routes.map((route) => [route, maskOf(rules, (rule) => coversRoute(rule, route))]));
  const base = basePath === "/" ? "" : basePath;
  return ({ target, path: reading, route }: ParsedRequest): Fitting => {
    const path = target === undefined ? "" : target.path;
    const possibly = anyPath | patterns.match(path);
    // For backends that distinguish case, a route in another case is another path; `..` or a host may lead there.
    const isOfRoute = reading.kind === "route" && route !== null && path.startsWith(base + route) && !parent.test(path);
    const ofRoute = isOfRoute ? (byRoute.get(route) ?? 0) : 0;
    return { possibly: possibly | ofRoute, certainly: anyPath | patterns.matchInAll(path) | ofRoute };
  };
}

const parent = /\/\.\.(?:\/|$)/;

function coversRoute({ paths }: AuthRule, route: string): boolean {
  return paths.some((path) => path.endsWith("/") && route.startsWith(path));
}

function maskOf(rules: readonly AuthRule[], isIn: (rule: AuthRule) => boolean): number {
  return rules.reduce((mask, rule, i) => (isIn(rule) ? mask | (1 << i) : mask), 0);
}

/** `file`: null if no rule demands a listed token. */
export function createAuthenticator(file: Watched<TokenList> | null, clock: WallClock): Authenticator {
  const tokens = file === null ? null : { file, known: new KnownTokens() };
  return {
    authenticate(credential, mode) {
      if (mode === "off") return "skipped";
      if (mode === "presence" || credential.kind !== "token") return presence(credential);
      const identity = tokens === null ? null : tokens.known.find(credential.token, tokens.file.value);
      if (identity === null) return "invalid";
      return identity.endsMs !== null && clock.wallMs() >= identity.endsMs ? "expired" : identity;
    },
    isKnown: (credential, mode) =>
      mode !== "tokens" || credential.kind !== "token" || tokens?.known.has(credential.token) === true,
    tokens() {
      if (file === null) return null;
      const { value: list, isCurrent } = file;
      return { listed: list.size, isCurrent, ending: () => endingSoon(list, clock).length, list };
    },
    close: () => file?.close(),
  };
}

export function endingSoon(list: TokenList, clock: WallClock): ReturnType<TokenList["endingBefore"]> {
  return list.endingBefore(clock.wallMs() + endingSoonMs);
}

/** Whether a well-formed token is valid is for the upstream to say. */
function presence({ kind }: BearerCredential): AuthOutcome {
  switch (kind) {
    case "token":
      return "accepted";
    case "missing":
      return "missing";
    case "malformed":
      return "invalid";
  }
}

interface KnownToken {
  readonly list: TokenList;
  readonly identity: Identity;
}

/**
 * The listed tokens that were used last, so that they are not hashed again with each request. Nobody can fill it with tokens
 * that are not listed. It is found by V8's hash of the text, which is seeded: the time of a lookup says nothing of a guess.
 */
class KnownTokens {
  /** The size of an entry is that of its token. */
  readonly #tokens = new LRUCache<string, KnownToken>({
    max: 4096,
    maxSize: 4 * 1024 * 1024,
    sizeCalculation: (_, token) => token.length,
  });

  has(token: string): boolean {
    return this.#tokens.has(token);
  }

  /** Returns whom a token stands for; null if it is not in the list. */
  find(token: string, list: TokenList): Identity | null {
    const known = this.#tokens.get(token);
    if (known !== undefined && known.list === list) return known.identity;
    // A new version of the list may have another name for the token, or not have it any more.
    const identity =
      known === undefined ? list.find(token) : list.ofDigest(Buffer.from(known.identity.tokenDigest, "hex"));
    // A text that was cut out of a head would keep all of it in memory.
    if (identity !== null) this.#tokens.set(inOnePiece(token), { list, identity });
    else if (known !== undefined) this.#tokens.delete(token);
    return identity;
  }
}
