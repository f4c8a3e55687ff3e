// `headgate start`: a placeholder until the gateway it starts exists.
import type { ConfigArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";

export async function run(_args: ConfigArguments, io: CommandIo): Promise<number> {
  io.err("headgate start: not built yet\n");
  return exitCodes.internal;
}
