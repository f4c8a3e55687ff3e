// `headgate finance-backend`: runs the reference API without the gateway. The first signal ends it, after the requests in
// flight.
import { resolve } from "node:path";
import { DatabaseError } from "../finance-backend/database.ts";
import { BackendListenError, type FinanceBackend, startFinanceBackend } from "../finance-backend/server.ts";
import type { FinanceBackendArguments } from "./arguments.ts";
import { type CommandIo, exitCodes } from "./io.ts";

export async function run(args: FinanceBackendArguments, io: CommandIo): Promise<number> {
  // Registered before the port is opened, so that a signal during the start is handled too.
  const signalled = new Promise<void>((end) => io.onSignal(() => end()));
  const database = args.database === null ? null : resolve(io.cwd, args.database);
  let backend: FinanceBackend;
  try {
    backend = await startFinanceBackend({ host: args.host, port: args.port, database, onFailure: report(io) });
  } catch (error) {
    if (!(error instanceof DatabaseError || error instanceof BackendListenError)) throw error;
    io.err(`headgate finance-backend: ${error.message}\n`);
    return exitCodes.unavailable;
  }
  io.out(`${JSON.stringify({ listener: "finance-backend", host: backend.host, port: backend.port })}\n`);
  await signalled;
  await backend.close();
  return exitCodes.ok;
}

function report(io: CommandIo): (error: unknown) => void {
  return (error) => {
    const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
    io.err(`headgate finance-backend: a request failed: ${stack}\n`);
  };
}
