// `headgate check`: says whether `headgate start` with the same arguments would have a configuration to start with, and
// which one. Opens no port and talks to nobody.
import { effectiveLines } from "../config/written.ts";
import type { ConfigArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";
import { loadConfig } from "./load-config.ts";
import { upstreamTlsWarnings } from "./upstream-tls-errors.ts";

export async function run(args: ConfigArguments, io: CommandIo): Promise<number> {
  const loaded = await loadConfig(args, io);
  if (loaded === undefined) return exitCodes.config;
  const lines = [`${loaded.file}: ok`, ...effectiveLines(loaded.raw)];
  io.err(
    upstreamTlsWarnings(loaded.settings)
      .map((line) => `${line}\n`)
      .join(""),
  );
  io.out(lines.map((line) => `${line}\n`).join(""));
  return exitCodes.ok;
}
