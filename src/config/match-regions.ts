// Compares what policies are about: whether the paths and methods of one include those of another. Case is ignored in
// paths. A path that ends in "/" is a prefix, and "*" is one segment.
import type { PolicyMatch } from "../core/policy.ts";

/** The paths of a policy, or the routes within them where they reach beyond. */
export function regionOf({ paths }: PolicyMatch, routes: readonly string[]): readonly string[] {
  if (paths.length === 0) return routes;
  return paths.flatMap((path) => {
    const within = routes.filter((route) => includes(path, route));
    return within.length === 0 ? [path] : within;
  });
}

/** Whether one of the paths includes all that `path` matches. No paths at all are all of them. */
export function coversPath(paths: readonly string[], path: string): boolean {
  return paths.length === 0 || paths.some((each) => includes(each, path));
}

export function coversMethods(outer: PolicyMatch, inner: PolicyMatch): boolean {
  if (outer.methods.length === 0) return true;
  return inner.methods.length > 0 && inner.methods.every((method) => outer.methods.includes(method));
}

/** Whether some path that matches `path` is under the route. */
export function mayBeUnder(path: string, route: string): boolean {
  const names = segmentsOf(path);
  const prefix = segmentsOf(route);
  if (!path.endsWith("/") && names.length < prefix.length) return false;
  return prefix.every((name, i) => i >= names.length || names[i] === "*" || names[i] === name);
}

function includes(outer: string, inner: string): boolean {
  const names = segmentsOf(outer);
  const others = segmentsOf(inner);
  const isLongEnough = outer.endsWith("/") ? others.length >= names.length : others.length === names.length;
  const isPrefix = inner.endsWith("/");
  return (
    isLongEnough && (outer.endsWith("/") || !isPrefix) && names.every((name, i) => name === "*" || name === others[i])
  );
}

function segmentsOf(path: string): string[] {
  return path
    .toLowerCase()
    .split("/")
    .filter((segment) => segment !== "");
}
