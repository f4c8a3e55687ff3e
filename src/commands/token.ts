// `headgate token`: makes a bearer token nobody can guess, and the digest by which the gateway knows it again.
import { createHash, randomBytes } from "node:crypto";
import type { NoArguments } from "./arguments.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CommandIo } from "./io.ts";

export async function run(_args: NoArguments, io: CommandIo): Promise<number> {
  const token = randomBytes(32).toString("base64url");
  const digest = createHash("sha256").update(token).digest("hex");
  io.out(`token:  ${token}\nsha256: ${digest}\n`);
  // On the other stream, so that the output can be taken apart by a script.
  io.err("Only the digest goes into the tokens file. Give the token to the client now: it is stored nowhere.\n");
  return exitCodes.ok;
}
