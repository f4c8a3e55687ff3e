// `headgate console`: the page and the admin API of a gateway on a port of this machine, for a browser and for programs that
// cannot use a Unix socket. Who has the token of this run may call; it is printed once, and worth nothing when the command has ended.
import { hash, randomBytes } from "node:crypto";
import { AdminTokens } from "../../../admin/admin-tokens.ts";
import { asError } from "../../../core/failure.ts";
import { type CommandIo, exitCodes } from "../../io.ts";
import { placeOf } from "../admin-client.ts";
import { CommandError } from "../command-error.ts";
import type { ConnectedGateway } from "../connect.ts";
import type { ConsoleArguments } from "../invocation.ts";
import { jsonText, linesText } from "../printed.ts";
import type { OpenedConsole } from "./console-schema.ts";
import { openConsoleServer } from "./console-server.ts";

/** Resolves with the exit code, after the first signal. */
export async function runConsole(
  { client: { where } }: ConnectedGateway,
  { port, isReadOnly }: ConsoleArguments,
  isJson: boolean,
  io: CommandIo,
): Promise<number> {
  // Registered before the port is opened, so that a signal during the start is handled too.
  const signalled = new Promise<void>((end) => io.onSignal(() => end()));
  const token = randomBytes(32).toString("base64url");
  const tokens = new AdminTokens([{ digest: hash("sha256", token), name: "console", role: roleOf(isReadOnly) }]);
  const server = await openConsoleServer({ where, tokens, port }).catch((error: unknown) => {
    throw new CommandError(exitCodes.unavailable, `cannot open a port: ${asError(error).message}`, [], error);
  });
  const url = `http://127.0.0.1:${server.port}/`;
  const opened: OpenedConsole = { url, token, isReadOnly };
  io.out(isJson ? jsonText(opened) : linesText(linesOf(opened, placeOf(where))));
  await signalled;
  await server.close();
  return exitCodes.ok;
}

function roleOf(isReadOnly: boolean) {
  return isReadOnly ? "read" : "write";
}

function linesOf({ url, token, isReadOnly }: OpenedConsole, place: string): string[] {
  return [
    `The console of the gateway at ${place}, until Ctrl-C${isReadOnly ? ", to read only" : ""}. The link has the token of this run:`,
    `  ${url}console/#token=${token}`,
    "The API is on the same port:",
    `  curl -H 'Authorization: Bearer ${token}' ${url}api/status`,
  ];
}
