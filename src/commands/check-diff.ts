// `headgate check --diff old new`: what a reload from one configuration to the other would change, which policies would
// start empty, what would need a restart, and what the reload would warn of. Fails if the reload would.
import { emptyPolicies, withoutRestart } from "../config/changes.ts";
import { differences } from "../config/effective.ts";
import { schema } from "../config/schema.ts";
import { addedWarnings } from "../config/warnings.ts";
import { describeChange } from "../core/reload.ts";
import type { DiffArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";
import { loadConfig } from "./load-config.ts";

export async function run({ files, overrides }: DiffArguments, io: CommandIo): Promise<number> {
  const [before, after] = [
    await loadConfig({ file: files[0], overrides }, io),
    await loadConfig({ file: files[1], overrides }, io),
  ];
  if (before === undefined || after === undefined) return exitCodes.config;
  const restart = new Set(withoutRestart(after.settings, before.settings).keys);
  const found = differences(schema, before.raw, after.raw, new Set([...before.tokenNames, ...after.tokenNames]));
  const empty = emptyPolicies(after.settings.policies, before.settings.policies);
  // Whether there is a store does not change without a restart.
  const hasStore = before.settings.counters.redis !== null;
  const start = hasStore
    ? "starts with what the store still has of its name, kind and key, because one of them is new"
    : "starts empty, because its name, kind or key is new";
  const lines = [
    ...found.map(
      (difference) =>
        `${describeChange(difference, hasStore)}${restart.has(difference.key) ? " (needs a restart)" : ""}`,
    ),
    ...empty.map((name) => `policies.${name}: ${start}`),
    ...(found.length === 0 ? ["nothing would change"] : []),
  ];
  const warnings = addedWarnings(before.settings, after.settings);
  io.err(warnings.map((warning) => `warning: ${warning}\n`).join(""));
  io.out(lines.map((line) => `${line}\n`).join(""));
  return exitCodes.ok;
}
