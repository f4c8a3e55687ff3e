// `headgate start`: the gateway with the given configuration, until a signal ends it.
import { renderConfigError } from "../config/config-error.ts";
import { loadSettings } from "../config/load.ts";
import type { ConfigArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";
import { type BuildInfo, serve } from "./serve.ts";
import { tokensFileErrors } from "./tokens-file-errors.ts";

export async function run({ file, overrides }: ConfigArguments, io: CommandIo, build: BuildInfo): Promise<number> {
  const loaded = loadSettings({ file, env: io.env, cwd: io.cwd, overrides });
  const errors = loaded.ok ? tokensFileErrors(loaded.settings, io.cwd) : loaded.errors.map(renderConfigError);
  if (!loaded.ok || errors.length > 0) {
    io.err(errors.map((line) => `${line}\n`).join(""));
    return exitCodes.config;
  }
  return serve(loaded.settings, io, build);
}
