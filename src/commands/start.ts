// `headgate start`: runs the gateway with the given configuration until a signal.
import type { ConfigArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";
import { loadConfig, settingsSource } from "./load-config.ts";
import { type BuildInfo, serve } from "./serve.ts";

export async function run(args: ConfigArguments, io: CommandIo, build: BuildInfo): Promise<number> {
  const loaded = await loadConfig(args, io);
  if (loaded === undefined) return exitCodes.config;
  return serve(loaded.settings, io, build, { source: settingsSource(args, loaded.file, io) });
}
