// `headgate demo`: a placeholder until the gateway it starts exists.
import type { DemoArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";

export async function run(_args: DemoArguments, io: CommandIo): Promise<number> {
  io.err("headgate demo: not built yet\n");
  return exitCodes.internal;
}
