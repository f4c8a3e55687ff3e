// `headgate finance-backend`: a placeholder until the backend's server is there.
import type { FinanceBackendArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";

export async function run(_args: FinanceBackendArguments, io: CommandIo): Promise<number> {
  io.err("headgate finance-backend: not built yet\n");
  return exitCodes.internal;
}
