// `headgate check`: says whether `headgate start` with the same arguments would have a configuration to start with, and
// which one. Opens no port and talks to nobody.
import { renderConfigError } from "../config/config-error.ts";
import { loadSettings } from "../config/load.ts";
import { effectiveLines } from "../config/written.ts";
import type { ConfigArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";
import { tokensFileErrors } from "./tokens-file-errors.ts";

export async function run({ file, overrides }: ConfigArguments, io: CommandIo): Promise<number> {
  const loaded = loadSettings({ file, env: io.env, cwd: io.cwd, overrides });
  const errors = loaded.ok ? tokensFileErrors(loaded.settings, io.cwd) : loaded.errors.map(renderConfigError);
  if (!loaded.ok || errors.length > 0) {
    io.err(errors.map((line) => `${line}\n`).join(""));
    return exitCodes.config;
  }
  io.out(`${loaded.file}: ok\n`);
  io.out(
    effectiveLines(loaded.raw)
      .map((line) => `${line}\n`)
      .join(""),
  );
  return exitCodes.ok;
}
