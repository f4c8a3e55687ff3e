// Reads the parts of a request that a client chooses, for keys and for the limits of some keys. A part that is missing,
// or that the upstream could read in another way, is "": the client is charged instead.
import { hash } from "node:crypto";
import type { Identity } from "../core/authenticator.ts";
import { readBearer } from "../core/bearer.ts";
import { trimBlanks } from "../core/blanks.ts";
import { type HeaderList, onlyHeaderValue } from "../core/header-list.ts";

/** Longer values would cost more to hash than their client spends on them. */
const maxValueLength = 1024;

/** Returns the value of a header that the request has exactly once. `name` is in lower case. */
export function headerPart(rawHeaders: HeaderList, name: string): string {
  return bounded(trimBlanks(onlyHeaderValue(rawHeaders, name) ?? ""));
}

/** Hashes the token of a request once, however many policies ask for it: a token may have 8 KiB. */
export class TokenDigests {
  #rawHeaders: HeaderList | null = null;
  #digest = "";

  /**
   * Returns the SHA-256 digest of the bearer token, in hex. Without a verified identity, it is that of any well-formed
   * token. The digest is the same in all modes, so that a key outlives a change of the mode.
   */
  of(rawHeaders: HeaderList, identity: Identity | null): string {
    if (identity !== null) return identity.tokenDigest;
    if (rawHeaders === this.#rawHeaders) return this.#digest;
    const credential = readBearer(rawHeaders);
    this.#rawHeaders = rawHeaders;
    this.#digest = credential.kind === "token" ? hash("sha256", credential.token, "hex") : "";
    return this.#digest;
  }

  /** Must be called when all policies have been asked: nothing of a request stays in memory. */
  forget(): void {
    this.#rawHeaders = null;
    this.#digest = "";
  }
}

export function subjectPart(identity: Identity | null): string {
  return bounded(identity?.subject ?? "");
}

export function claimPart(identity: Identity | null, name: string): string {
  return bounded(identity?.claims.get(name) ?? "");
}

function bounded(value: string): string {
  return value.length > maxValueLength ? "" : value;
}
