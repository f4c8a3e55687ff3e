// `headgate check`: checks the configuration that `headgate start` would use with the same arguments, and prints it, or
// compares two configurations. Opens no port, and a connection only with `--online`.
import { emptyPolicies, withoutRestart } from "../config/changes.ts";
import { differences, effectiveLines } from "../config/effective.ts";
import { schema } from "../config/schema.ts";
import { uncheckedLines } from "../config/unchecked-paths.ts";
import { upstreamHostLines } from "../config/upstream.ts";
import { addedWarnings, configurationWarnings } from "../config/warnings.ts";
import { describeChange } from "../core/reload.ts";
import type { Settings } from "../core/settings.ts";
import { flawOfPath } from "../limits/snapshot/file.ts";
import { linesText } from "./admin/printed.ts";
import type { ConfigArguments, DiffArguments } from "./arguments.ts";
import { type CommandIo, exitCodes } from "./io.ts";
import { loadConfig } from "./load-config.ts";

export async function run({ isOnline = false, ...args }: ConfigArguments, io: CommandIo): Promise<number> {
  const loaded = await loadConfig(args, io);
  if (loaded === undefined) return exitCodes.config;
  const lines = [
    `${loaded.file}: ok`,
    ...effectiveLines(schema, loaded.raw, loaded.tokenNames),
    ...uncheckedLines(loaded.settings),
    ...upstreamHostLines(loaded.settings.upstream),
  ];
  const warnings = [...configurationWarnings(loaded.settings), ...(await snapshotWarnings(loaded.settings))];
  io.err(linesText(warnings.map((warning) => `warning: ${warning}`)));
  io.out(linesText(lines));
  return isOnline ? runOnline(loaded.settings, io) : exitCodes.ok;
}

/** Fails if limits could not be shared through a server of the store. */
async function runOnline({ counters: { redis } }: Settings, io: CommandIo): Promise<number> {
  if (redis === null) {
    io.out("online: counters.store is memory, so there is no store to ask\n");
    return exitCodes.ok;
  }
  const { checkStore } = await import("../gateway/check-store.ts");
  const findings = await checkStore(redis);
  for (const { kind, text } of findings) {
    if (kind === "usable") io.out(linesText([`online: ${text}`]));
    else io.err(linesText([`${kind === "warning" ? "warning" : "counters.redis"}: ${text}`]));
  }
  return findings.some(({ kind }) => kind === "missing") ? exitCodes.unavailable : exitCodes.ok;
}

/** No error, because the gateway may run elsewhere, and serves without snapshots. */
async function snapshotWarnings({ counters: { snapshot } }: Settings): Promise<readonly string[]> {
  const flaw = snapshot === null ? null : await flawOfPath(snapshot.path);
  return flaw === null ? [] : [`counters.snapshot.path: ${flaw}, so no snapshot can be written here`];
}

/**
 * `headgate check --diff old new`: prints what a reload from one configuration to the other would change, which policies
 * would start empty, what would need a restart, and what the reload would warn of. Fails if the reload would.
 */
export async function runDiff({ files, overrides }: DiffArguments, io: CommandIo): Promise<number> {
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
  io.err(linesText(warnings.map((warning) => `warning: ${warning}`)));
  io.out(linesText(lines));
  return exitCodes.ok;
}
