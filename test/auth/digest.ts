import { createHash } from "node:crypto";

/** As the tokens file lists it. */
export function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
