// Finds the gateway that a command is to ask, opens its admin API, and says why that is not possible. A gateway of another version
// is asked all the same, with a warning.
import { resolve } from "node:path";
import type { Status } from "../../admin/control-plane.ts";
import { isLoopback } from "../../config/addresses.ts";
import { explainReadFailure, readRegularFile } from "../../config/files.ts";
import { loadSettings } from "../../config/load.ts";
import { renderConfigError } from "../../config/written.ts";
import { isToken } from "../../core/authentication.ts";
import { passwordIn } from "../../core/file-group.ts";
import { CommandError, type CommandIo, exitCodes } from "../io.ts";
import { type AdminClient, openAdminClient, type Where } from "./admin-client.ts";
import type { ConnectionArguments } from "./invocation.ts";
import { errorLines, jsonText, linesText } from "./printed.ts";

export interface ConnectedGateway {
  readonly client: AdminClient;
  /** When the connection was tried. */
  readonly status: Status;
}

interface AskedBy {
  readonly connection: ConnectionArguments;
  /** An error is printed as JSON too, on standard output. */
  readonly isJson: boolean;
}

/** Runs the work with a gateway. Resolves with the exit code: that of the work, or that of what failed, which is printed. */
export async function withGateway(
  { connection, isJson }: AskedBy,
  io: CommandIo,
  version: string,
  work: (gateway: ConnectedGateway) => Promise<number>,
): Promise<number> {
  let gateway: ConnectedGateway | null = null;
  try {
    const client = await openAdminClient(await findGateway(connection, io));
    gateway = { client, status: await client.status() };
    io.err(linesText(warningsOf(gateway.status, version)));
    return await work(gateway);
  } catch (error) {
    const failure = await failureOf(error, gateway, version);
    if (isJson)
      io.out(jsonText({ error: { code: failure.exitCode, message: failure.message, details: failure.details } }));
    else io.err(linesText(errorLines(failure)));
    return failure.exitCode;
  }
}

function warningsOf({ version: running, state }: Status, version: string): string[] {
  return [
    ...(running === version ? [] : [`warning: the gateway is version ${running}, and this command ${version}`]),
    ...(state === "draining" ? ["warning: the gateway is draining"] : []),
  ];
}

/** Throws what is nobody's answer: a bug. */
async function failureOf(error: unknown, gateway: ConnectedGateway | null, version: string): Promise<CommandError> {
  if (error instanceof CommandError) return error;
  // What a value of another type than expected causes.
  const isOfType = error instanceof TypeError || error instanceof RangeError;
  if (gateway === null || !isOfType) throw error;
  const { flawOfAnswers } = await import("./answer-flaw.ts");
  const flaw = flawOfAnswers(gateway.client.answers);
  if (flaw === null) throw error;
  const running = gateway.status.version;
  // An answer of another version may lack what is shown here.
  const details = running === version ? [] : ["Use --json, or the command of the gateway's version."];
  return new CommandError(exitCodes.unavailable, flaw, details, error);
}

/** Rejects with a CommandError. */
async function findGateway(asked: ConnectionArguments, io: CommandIo): Promise<Where> {
  const { socket, url, tokenFile, ca } = asked;
  if (url !== null && tokenFile !== null) {
    if (url.protocol === "http:" && !isLoopback(url.hostname.replace(/^\[|\]$/g, ""))) {
      throw new CommandError(exitCodes.usage, "--url: found http:// beyond this machine, expected https://", [
        "Whoever is on the way could read the token. Set admin.tls, or take a tunnel: ssh -L 9464:127.0.0.1:9464 …",
      ]);
    }
    const token = await readToken(tokenFile, io.cwd);
    return { kind: "url", url, token, tokenFile, ca: ca === null ? null : await readText("--ca", ca, io.cwd) };
  }
  return { kind: "socket", path: socket === null ? configuredSocket(asked.config, io) : resolve(io.cwd, socket) };
}

/** From the configuration that a start would use. One with errors elsewhere does, because a gateway runs on without it. */
function configuredSocket(config: string | undefined, { env, cwd }: CommandIo): string {
  const loaded = loadSettings({ file: config, env, cwd, overrides: [] });
  const path = loaded.ok ? loaded.settings.admin.socket : loaded.files.path("admin.socket");
  if (path !== null) return path;
  const expected = "give --socket, or --url and --token-file, or set admin.socket (HEADGATE_ADMIN_SOCKET)";
  if (loaded.ok)
    throw new CommandError(exitCodes.usage, `no gateway to ask: ${loaded.file} has no admin.socket; ${expected}`);
  throw new CommandError(exitCodes.config, `no gateway to ask: ${expected}`, loaded.errors.map(renderConfigError));
}

async function readToken(file: string, cwd: string): Promise<string> {
  const token = passwordIn(await readText("--token-file", file, cwd))?.trim() ?? "";
  if (isToken(token)) return token;
  throw new CommandError(exitCodes.config, `--token-file: ${file}: found another text, expected a token alone`);
}

async function readText(option: string, file: string, cwd: string): Promise<string> {
  try {
    return await readRegularFile(resolve(cwd, file));
  } catch (cause) {
    const message = `${option}: ${file}: cannot be read: ${explainReadFailure(cause)}`;
    throw new CommandError(exitCodes.config, message, [], cause);
  }
}
