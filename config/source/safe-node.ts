// Renews the table of src/commands/safe-node.ts from Node's list of releases.

/** An entry of https://nodejs.org/dist/index.json. `security`: it fixes vulnerabilities. */
export interface NodeRelease {
  readonly version: string;
  readonly security: boolean;
}

/** The oldest line that the gateway runs on, and a later one on which it does not. */
const oldest = 24;
const not = 25;

/**
 * Returns the source with the newest release of each line that fixes vulnerabilities. A release is never replaced by an earlier one,
 * so that a list that lacks some takes nothing back. A new line is added with its first such release.
 */
export function renewed(source: string, releases: readonly NodeRelease[]): string {
  const lines = new Map<number, readonly [number, number]>();
  const take = (major: number, minor: number, patch: number): void => {
    const [knownMinor, knownPatch] = lines.get(major) ?? [-1, -1];
    if (minor > knownMinor || (minor === knownMinor && patch > knownPatch)) lines.set(major, [minor, patch]);
  };
  const [table = ""] = /^( {2}\[\d+, \[\d+, \d+\]\],\n)+/m.exec(source) ?? [];
  for (const [, ...numbers] of table.matchAll(/\[(\d+), \[(\d+), (\d+)\]\]/g)) {
    const [major = 0, minor = 0, patch = 0] = numbers.map(Number);
    take(major, minor, patch);
  }
  for (const { version, security } of releases) {
    const [, ...numbers] = /^v(\d+)\.(\d+)\.(\d+)$/.exec(version) ?? [];
    const [major = 0, minor = 0, patch = 0] = numbers.map(Number);
    if (security && major >= oldest && major !== not) take(major, minor, patch);
  }
  if (table === "" || lines.size === 0)
    throw new Error("src/commands/safe-node.ts has no table in the form that is renewed");
  const rows = [...lines].sort(([a], [b]) => a - b).map(([major, of]) => `  [${major}, [${of.join(", ")}]],\n`);
  return source.replace(table, rows.join(""));
}
