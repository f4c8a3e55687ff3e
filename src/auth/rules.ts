// Finds the rule that decides what is asked of a request's token. Where backends may read the path or the method in several
// ways, every rule that may fit is satisfied: no spelling of a path opens it, or asks for less than another spelling.
import { type AuthDemand, type AuthDemands, type AuthRule, stricterOf } from "../core/authentication.ts";
import { overridingMethods } from "../core/method-override.ts";
import { PathPatterns } from "../core/path-patterns.ts";
import type { DemandReader, ParsedRequest, RequestHead } from "../core/request-head.ts";

/** Sets of rules are masks: bit i stands for the rule at index i. */
interface Fitting {
  /** The rules that fit in at least one reading. */
  readonly possibly: number;
  /** The rules that fit in every reading. */
  readonly certainly: number;
}

export function createDemandReader(auth: AuthDemands, routes: readonly string[], basePath: string): DemandReader {
  const { rules } = auth;
  const otherwise: AuthDemand = { mode: auth.mode, scopes: [] };
  if (rules.length === 0) return () => otherwise;
  const fittingPaths = createPathMatcher(rules, routes, basePath);
  const fittingMethods = createMethodMatcher(rules);
  const find: DemandReader = (request, head) => {
    const paths = fittingPaths(request);
    const methods = fittingMethods(request, head);
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
  return ({ target, path: reading, route }: ParsedRequest): Fitting => {
    const path = target === undefined ? "" : target.path;
    const matching = anyPath | patterns.match(path);
    if (PathPatterns.hasOneReading(path)) return { possibly: matching, certainly: matching };
    const ofRoute = reading.kind === "route" && route !== null ? (byRoute.get(route) ?? 0) : 0;
    return { possibly: matching | ofRoute, certainly: anyPath | ofRoute };
  };
}

function coversRoute({ paths }: AuthRule, route: string): boolean {
  return paths.some((path) => path.endsWith("/") && route.toLowerCase().startsWith(path.toLowerCase()));
}

/** A backend may ignore the case of a method, or take another one from a header or the query. */
function createMethodMatcher(rules: readonly AuthRule[]) {
  const anyMethod = maskOf(rules, ({ methods }) => methods.length === 0);
  if (anyMethod === maskOf(rules, () => true)) return (): Fitting => ({ possibly: anyMethod, certainly: anyMethod });
  const known = new Set(rules.flatMap(({ methods }) => methods));
  const byMethod = new Map(
    [...known].map((method) => [method, anyMethod | maskOf(rules, ({ methods }) => methods.includes(method))]),
  );
  const ofMethod = (method: string): number => byMethod.get(method) ?? anyMethod;
  return ({ target }: ParsedRequest, { method, rawHeaders }: RequestHead): Fitting => {
    let possibly = ofMethod(method) | ofMethod(method.toUpperCase());
    let certainly = ofMethod(method);
    const query = target === undefined ? "" : target.original.slice(target.path.length + 1);
    for (const other of overridingMethods(rawHeaders, query)) {
      possibly |= ofMethod(other);
      certainly &= ofMethod(other);
    }
    return { possibly, certainly };
  };
}

function maskOf(rules: readonly AuthRule[], isIn: (rule: AuthRule) => boolean): number {
  return rules.reduce((mask, rule, i) => (isIn(rule) ? mask | (1 << i) : mask), 0);
}
