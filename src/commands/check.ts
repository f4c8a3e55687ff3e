// `headgate check`: checks the configuration that `headgate start` would use with the same arguments, and prints it. Opens
// no port and no connection.
import { uncheckedLines } from "../config/auth.ts";
import { effectiveLines } from "../config/effective.ts";
import { schema } from "../config/schema.ts";
import { configurationWarnings } from "../config/warnings.ts";
import type { Settings } from "../core/settings.ts";
import { flawOfPath } from "../limits/snapshot/file.ts";
import type { ConfigArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";
import { loadConfig } from "./load-config.ts";

export async function run(args: ConfigArguments, io: CommandIo): Promise<number> {
  const loaded = await loadConfig(args, io);
  if (loaded === undefined) return exitCodes.config;
  const lines = [
    `${loaded.file}: ok`,
    ...effectiveLines(schema, loaded.raw, loaded.tokenNames),
    ...uncheckedLines(loaded.settings),
  ];
  const warnings = [...configurationWarnings(loaded.settings), ...(await snapshotWarnings(loaded.settings))];
  for (const warning of warnings) io.err(`warning: ${warning}\n`);
  io.out(lines.map((line) => `${line}\n`).join(""));
  return exitCodes.ok;
}

/** No error, because the gateway may run elsewhere, and serves without snapshots. */
async function snapshotWarnings({ counters: { snapshot } }: Settings): Promise<readonly string[]> {
  const flaw = snapshot === null ? null : await flawOfPath(snapshot.path);
  return flaw === null ? [] : [`counters.snapshot.path: ${flaw}, so no snapshot can be written here`];
}
