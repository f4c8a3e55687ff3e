// What a configuration is loaded from in a test: the file, the environment and the command line.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArguments } from "../../src/commands/arguments.ts";
import { type LoadedSettings, loadSettings } from "../../src/config/load.ts";

export interface Given {
  readonly yaml?: string;
  readonly env?: Record<string, string>;
  /** As on the command line. */
  readonly flags?: readonly string[];
}

/** Loads it from the file `c.yaml` of `folder`. */
export function loadGiven(
  folder: string,
  { yaml = "{}", env = {}, flags = [] }: Given,
  processors: () => number = () => 1,
): LoadedSettings {
  writeFileSync(join(folder, "c.yaml"), yaml);
  const parsed = parseArguments(["start", "--config", "c.yaml", ...flags]);
  if (!parsed.ok || parsed.invocation.command !== "start") throw new Error("the test's own flags are wrong");
  return loadSettings({ ...parsed.invocation.args, env, cwd: folder, processors });
}
