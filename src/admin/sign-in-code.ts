// A code that signs in one page: a link has it in place of the token, because browsers keep links. It is exchanged for the token
// once, within a minute. Only a program that has the token makes a code, so `headgate start` has none.
import { hash, randomBytes } from "node:crypto";
import type { HeaderList } from "../core/headers.ts";
import { type AdminAccess, decideAccess, type Reached } from "./access.ts";
import { AdminTokens } from "./admin-tokens.ts";
import { type AdminError, errors } from "./errors.ts";

/** Where a code is exchanged, by POST and without a body, in the place of a bearer token. */
export const signInPath = "/console/sign-in";

export const codeLifetimeMs = 60_000;

/** Nobody guesses 256 random bits, and who guesses must not keep the others out. */
export const unboundedGuesses = { waitSeconds: () => 0, failed() {} };

export class SignInCode {
  readonly text = randomBytes(32).toString("base64url");
  /** Compares in constant time. */
  readonly #code = new AdminTokens([{ digest: hash("sha256", this.text), name: "link", role: "read" }]);
  readonly #nowMs: () => number;
  readonly #endMs: number;
  /** Null: the code is used up. */
  #token: string | null;

  constructor(token: string, nowMs: () => number) {
    this.#token = token;
    this.#nowMs = nowMs;
    this.#endMs = nowMs() + codeLifetimeMs;
  }

  /** Asks of a request what the API asks of a call, with the code in place of the token. The first that has it gets the token. */
  exchange(
    rawHeaders: HeaderList,
    reached: Reached,
    access: AdminAccess,
  ): { readonly token: string } | { readonly error: AdminError } {
    // Over the Unix socket, a call needs no token. This one needs the code.
    const overTcp = { ...reached, isUnixSocket: false };
    const decision = decideAccess(rawHeaders, overTcp, { ...access, tokens: { value: this.#code } }, unboundedGuesses);
    if (!decision.ok) return { error: decision.error === errors.unauthorized ? errors.unknownLink : decision.error };
    const token = this.#token;
    this.#token = null;
    // Half open: at exactly a minute it has expired.
    return token === null || this.#nowMs() >= this.#endMs ? { error: errors.usedLink } : { token };
  }
}
