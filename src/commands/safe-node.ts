// The lowest safe release of each line of Node that the gateway runs on: an earlier one has published vulnerabilities
// (https://nodejs.org/en/blog/vulnerability, October 2026). A start on an earlier one is warned of, never refused.
const lowestSafe: ReadonlyMap<number, readonly [minor: number, patch: number]> = new Map([
  [24, [22, 1]],
  [26, [12, 1]],
]);

/** `version`: of Node, such as "26.10.0". Returns the release of its line to update to; null if none is known. */
export function saferNode(version: string): string | null {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  const safe = lowestSafe.get(major);
  if (safe === undefined || minor > safe[0] || (minor === safe[0] && patch >= safe[1])) return null;
  return `${major}.${safe.join(".")}`;
}
