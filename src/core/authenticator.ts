// Checks the token of a request after its quota was charged. A local authenticator answers at once.
import type { AuthDemand } from "./auth-demand.ts";
import type { BearerCredential } from "./bearer.ts";

/**
 * `accepted`: one well-formed bearer token, which in mode `tokens` is listed. `missing`: no bearer token. `invalid`: a
 * token that is malformed, repeated or not listed. `expired`: a listed token whose end has come. `skipped`: not checked, in mode `off` or because the request was
 * refused before (throttled, no route, malformed).
 */
export const authOutcomes = ["accepted", "missing", "invalid", "expired", "skipped"] as const;

export type AuthOutcome = (typeof authOutcomes)[number];

/** Who a verified token stands for. */
export interface Identity {
  /** The SHA-256 digest of the token, in hex. */
  readonly tokenDigest: string;
  /** The name of the token in the list; null if it has none. */
  readonly tokenName: string | null;
  readonly subject: string | null;
  readonly scopes: readonly string[];
  /** The instant of the wall clock from which on the token is refused; null: it has no end. */
  readonly endsMs: number | null;
  readonly claims: ReadonlyMap<string, string>;
}

/** An identity means `accepted`. */
export type Authentication = AuthOutcome | Identity;

export interface Authenticator {
  /** Answers `skipped` only if nothing is demanded. */
  authenticate(
    credential: BearerCredential,
    demand: Pick<AuthDemand, "mode">,
  ): Authentication | Promise<Authentication>;
  /** Returns whether `authenticate` answers without hashing or verifying the token, because it is not asked for or known. */
  isKnown(credential: BearerCredential, demand: Pick<AuthDemand, "mode">): boolean;
  /** Returns the state of the list of tokens; null if there is none. */
  tokens(): TokensInUse | null;
  /** Stops watching files. */
  close(): void;
}

export interface TokensInUse {
  readonly listed: number;
  /** False while the file is missing or wrong, and an earlier list stays in use. */
  readonly isCurrent: boolean;
  /** Returns how many end soon, or have ended. */
  readonly ending: () => number;
  readonly list: ListedTokens;
}

/** Operators are warned so long before a token ends. */
export const endingSoonMs = 14 * 86_400_000;

/** What the list of tokens shows to others: no token can be read from it. */
export interface ListedTokens {
  readonly size: number;
  /** Those whose end comes before an instant of the wall clock, and those that have ended. */
  endingBefore(beforeMs: number): readonly Pick<Identity, "tokenName" | "endsMs">[];
  names(): ReadonlySet<string>;
  /** Whom the tokens stand for. */
  identities(): Iterable<Identity>;
  hasDigest(hex: string): boolean;
  /** Whether one token has all of these scopes. */
  hasScopes(wanted: readonly string[]): boolean;
}
