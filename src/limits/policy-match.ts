// Finds the policies that a request is about, by its path and its method. Reads both inclusively: a request that some
// backend may take for a matching one matches.
import { overridingMethods } from "../core/method-override.ts";
import { PathPatterns } from "../core/path-patterns.ts";
import type { Policy } from "../core/policy.ts";
import type { ParsedRequest, RequestHead } from "../core/request-head.ts";

/** Returns one bit for each policy: 1 for the first, 2 for the second, and so on. With 32 policies it may be negative. */
export type PolicyMatcher = (request: ParsedRequest, head: RequestHead) => number;

export function createPolicyMatcher(policies: readonly Policy[], basePath: string): PolicyMatcher {
  const bits = policies.map(({ match }, i) => ({ match, mask: 1 << i }));
  const withPaths = bits.filter(({ match }) => match.paths.length > 0);
  const withMethods = bits.filter(({ match }) => match.methods.length > 0);
  const all = union(bits);
  if (withPaths.length + withMethods.length === 0) return () => all;

  const ofPaths = union(withPaths);
  const patterns = new PathPatterns(
    withPaths.flatMap(({ match, mask }) => match.paths.map((path) => ({ path, mask }))),
    basePath,
  );
  const ofAnyMethod = all & ~union(withMethods);
  const byMethod = new Map<string, number>();
  for (const { match, mask } of withMethods) {
    for (const method of match.methods) byMethod.set(method, (byMethod.get(method) ?? ofAnyMethod) | mask);
  }

  // Methods have case, but some backends ignore it.
  const ofMethod = (method: string): number =>
    byMethod.get(method) ?? byMethod.get(method.toUpperCase()) ?? ofAnyMethod;

  return ({ target }, { method, rawHeaders }) => {
    let mask = ofMethod(method);
    if (withMethods.length > 0) {
      const query = target === undefined ? "" : target.original.slice(target.path.length + 1);
      for (const other of overridingMethods(rawHeaders, query)) mask |= ofMethod(other);
    }
    if ((mask & ofPaths) === 0 || target === undefined) return mask;
    return mask & (~ofPaths | patterns.match(target.path));
  };
}

function union(bits: readonly { readonly mask: number }[]): number {
  return bits.reduce((mask, bit) => mask | bit.mask, 0);
}
