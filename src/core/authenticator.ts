// Who may pass, once the quota has been charged. One authenticator for each `auth.mode`; a local one answers at once.
import type { BearerCredential } from "./bearer.ts";

/**
 * `accepted`: a bearer token was there and, in mode `tokens`, is listed. `missing`: nothing was given as a bearer
 * token. `invalid`: something was, and is not one well-formed token, or is not listed. `skipped`: nobody asked (mode
 * `off`, throttled before, no route, malformed).
 */
export const authOutcomes = ["accepted", "missing", "invalid", "skipped"] as const;

export type AuthOutcome = (typeof authOutcomes)[number];

export interface Authenticator {
  /** `off` answers `skipped`; the others never do. */
  authenticate(credential: BearerCredential): AuthOutcome | Promise<AuthOutcome>;
  /** The list of tokens in use; null in a mode that has none. */
  tokens(): TokensInUse | null;
  /** Stops whatever watches or renews. */
  close(): void;
}

export interface TokensInUse {
  readonly listed: number;
  /** False while the file is away or wrong, and the list from before is in use. */
  readonly isCurrent: boolean;
}
