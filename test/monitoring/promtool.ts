// Debian's promtool, in the folder of the rules.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { rulesFolder } from "./rules.ts";

const installed = spawnSync("promtool", ["--version"]).status === 0;
const { HEADGATE_REQUIRE } = process.env;
/** For `test.skipIf`. HEADGATE_REQUIRE=all turns what is missing into a failure. */
export const skipPromtool = !installed && HEADGATE_REQUIRE !== "all";
/** At the end of a name: says what a skipped test needs. */
export const promtoolNeeded = "(needs promtool: apt-get install prometheus)";

/** The files of tests of the rules, from the folder of the rules. */
export const ruleTests = readdirSync(new URL("tests/", rulesFolder)).map((file) => `tests/${file}`);

export function promtool(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync("promtool", args, {
    cwd: fileURLToPath(rulesFolder),
    encoding: "utf8",
  });
  if (error !== undefined) throw error;
  return { status, output: stdout + stderr };
}
