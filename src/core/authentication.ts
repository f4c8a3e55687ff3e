// What is asked of the token of a request, how the token is read, and who it stands for. Whether a token is accepted is
// decided in auth/, after the quota was charged.
import { type HeaderList, headerValues } from "./headers.ts";
import type { Method } from "./method.ts";
import type { Awaitable } from "./policy.ts";

export type BearerCredential =
  | { readonly kind: "token"; readonly token: string }
  /** No Authorization header, another scheme, or the scheme alone. */
  | { readonly kind: "missing" }
  /** It is not one token of the characters below, or is given more than once. */
  | { readonly kind: "malformed" };

const missing: BearerCredential = { kind: "missing" };
const malformed: BearerCredential = { kind: "malformed" };

/**
 * Visible ASCII without the comma, which separates credentials, and the quotation mark, which begins a parameter. RFC 6750, 2.1
 * allows fewer characters, but tokens with `|` are widespread.
 */
export const isToken = (text: string): boolean => /^[!#-+\--~]+$/.test(text);

/** Ignores the case of the scheme (RFC 9110, 11.1). The length of a token has no bound but that of the head. */
export function readBearer(rawHeaders: HeaderList): BearerCredential {
  const fields = headerValues(rawHeaders, "authorization");
  let given: string | undefined;
  for (let i = 0; i < fields.length && given === undefined; i += 1) given = afterScheme(fields[i] ?? "");
  if (given === undefined) return missing;
  // Of two, the gateway could check one and the upstream use the other.
  return fields.length === 1 && isToken(given) ? { kind: "token", token: given } : malformed;
}

/** Returns the text after the scheme; undefined for another scheme, or the scheme alone. */
function afterScheme(field: string): string | undefined {
  return /^bearer +([^ ].*)$/is.exec(field)?.[1];
}

/** From the one that asks for least to the one that asks for most. */
export const authModes = ["off", "presence", "tokens"] as const;

/** `off`: nothing. `presence`: one well-formed token, whoever sends it. `tokens`: one that is listed. */
export type AuthMode = (typeof authModes)[number];

export interface AuthDemand {
  readonly mode: AuthMode;
  /** A listed token must have all of them. */
  readonly scopes: readonly string[];
}

/** The requests that a rule is about, and what it asks of them. */
export interface AuthRule extends AuthDemand {
  /** As those of a policy: below the base path; a path that ends in "/" is a prefix, "*" stands for one segment; [] means all. */
  readonly paths: readonly string[];
  /** [] means all. */
  readonly methods: readonly Method[];
}

/** The rules by path and method, and the mode of all other requests. */
export interface AuthDemands {
  readonly mode: AuthMode;
  /** At most 32. The first that fits a request decides; `mode` holds for requests that none fits. */
  readonly rules: readonly AuthRule[];
}

/** Returns whether the tokens of some requests are verified. */
export function verifiesTokens({ mode, rules }: AuthDemands): boolean {
  return mode === "tokens" || rules.some((rule) => rule.mode === "tokens");
}

/** Returns what asks for all that either of the two asks for. */
export function stricterOf(a: AuthDemand, b: AuthDemand): AuthDemand {
  const { mode } = authModes.indexOf(a.mode) < authModes.indexOf(b.mode) ? b : a;
  return { mode, scopes: [...new Set([...a.scopes, ...b.scopes])] };
}

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

/** Checks the token of a request after its quota was charged. A local authenticator answers at once. */
export interface TokenVerifier {
  /** Answers `skipped` only if the mode is `off`. */
  authenticate(credential: BearerCredential, mode: AuthMode): Awaitable<Authentication>;
  /** Returns whether `authenticate` answers without hashing or verifying the token, because it is not asked for or known. */
  isKnown(credential: BearerCredential, mode: AuthMode): boolean;
}

export interface Authenticator extends TokenVerifier {
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
  endingBefore(beforeMs: number): readonly Identity[];
  names(): ReadonlySet<string>;
  /** Whom the tokens stand for. */
  identities(): Iterable<Identity>;
  hasDigest(hex: string): boolean;
  /** Whether one token has all of these scopes. */
  hasScopes(wanted: readonly string[]): boolean;
}
