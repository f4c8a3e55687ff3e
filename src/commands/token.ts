// `headgate token`: makes a random bearer token and its digest, by which the gateway recognizes it.
import { createHash, randomBytes } from "node:crypto";
import type { TokenArguments } from "./arguments.ts";
import { type CommandIo, exitCodes } from "./io.ts";

export async function run({ name }: TokenArguments, io: CommandIo): Promise<number> {
  const token = randomBytes(32).toString("base64url");
  const digest = createHash("sha256").update(token).digest("hex");
  io.out(`token:  ${token}\nsha256: ${digest}\n`);
  if (name !== undefined) io.out(`line:   ${digest}  # ${name}\n`);
  // The explanation goes to standard error, so that a script can read the token and the digest from standard output.
  io.err("Only the digest goes into the tokens file. Give the token to the client now: it is stored nowhere.\n");
  return exitCodes.ok;
}
