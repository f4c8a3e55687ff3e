// The lowest safe release of each line of Node that the gateway runs on: an earlier one has published vulnerabilities
// (https://nodejs.org/en/blog/vulnerability). A start on an earlier one is warned of, never refused. `npm run safe-node` renews the
// table.
export const lowestSafe: ReadonlyMap<number, readonly [minor: number, patch: number]> = new Map([
  [24, [22, 1]],
  [26, [12, 1]],
]);

/** `version`: of Node, such as "26.10.0". Returns the release of its line to update to; null if none is known. */
export function saferNode(version: string, table = lowestSafe): string | null {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  const safe = table.get(major);
  if (safe === undefined || minor > safe[0] || (minor === safe[0] && patch >= safe[1])) return null;
  return `${major}.${safe.join(".")}`;
}
