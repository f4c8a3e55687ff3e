// `headgate token`: makes a random bearer token and its digest, by which the gateway recognizes it.
import { createHash, randomBytes } from "node:crypto";
import { writtenEnd } from "../auth/tokens-file.ts";
import { systemClock } from "../core/clock.ts";
import type { TokenArguments } from "./arguments.ts";
import { type CommandIo, exitCodes } from "./io.ts";

export async function run({ name, scopes, expiresInMs, admin }: TokenArguments, io: CommandIo): Promise<number> {
  const token = randomBytes(32).toString("base64url");
  const digest = createHash("sha256").update(token).digest("hex");
  io.out(`token:  ${token}\nsha256: ${digest}\n`);
  // Rounded up to a second, because a line has no fractions.
  const endsMs = expiresInMs === null ? null : Math.ceil((systemClock.wallMs() + expiresInMs) / 1000) * 1000;
  const terms = [
    ...(admin === null ? [] : [admin]),
    ...(scopes.length === 0 ? [] : [`scopes=${scopes.join(",")}`]),
    ...(endsMs === null ? [] : [`expires=${writtenEnd(endsMs)}`]),
    ...(name === undefined ? (admin === null ? [] : ["# admin"]) : [`# ${name}`]),
  ];
  if (terms.length > 0) io.out(`line:   ${[digest, ...terms].join("  ")}\n`);
  // The explanation goes to standard error, so that a script can read the token and the digest from standard output.
  io.err("Only the digest goes into the tokens file. Give the token to the client now: it is stored nowhere.\n");
  return exitCodes.ok;
}
