// What a reload is caused by, and what it comes to.

/** `signal`: SIGHUP. `file`: a watched file has changed. `call`: a program asked for it. `trial`: one was taken back. */
export const reloadCauses = ["signal", "file", "call", "trial"] as const;

export type ReloadCause = (typeof reloadCauses)[number];

/** A key with its values in two configurations, as they would be written. Secrets are masked. */
export interface SettingChange {
  /** Dotted; a policy stands by its name, as in `policies.per-ip.limit`. */
  readonly key: string;
  /** Null: the key, or the policy, is not there. */
  readonly from: string | null;
  readonly to: string | null;
}

/** `hasStore`: what was counted is in a shared store. Of all lists, policies alone have names. */
export function describeChange({ key, from, to }: SettingChange, hasStore: boolean): string {
  if (from === null) return `${key}: added: ${to}`;
  if (to === null) return `${key}: removed; ${hasStore ? keptInStore : "what it has counted is forgotten"}`;
  return from === to ? `${key}: ${to} (a value that is not shown has changed)` : `${key}: ${from} → ${to}`;
}

const keptInStore = "what it has counted stays in the store until it expires, and counts if the policy comes back";

/** Keys are those of the configuration, such as `upstream.url`. */
export interface ReloadResult {
  readonly ok: boolean;
  /** False: only the contents of files that the configuration names have changed. */
  readonly isConfigRead: boolean;
  /** The keys whose new values are in force, and those whose files have new contents in use. */
  readonly changed: readonly string[];
  /** The values of those keys before and after. Empty if a program passed settings that were not written anywhere. */
  readonly changes: readonly SettingChange[];
  /** The policies with a new name, kind or key. They have started empty, or with what a shared store still has of them. */
  readonly reset: readonly string[];
  /** Whether what was counted is in a shared store. */
  readonly hasStore: boolean;
  /** The changed keys by which protection was given up. */
  readonly loosened: readonly string[];
  /** The keys whose new values need a restart; the old ones stay in force. */
  readonly restart: readonly string[];
  /** What is wrong with the configuration, one line for each error: then none of its values has changed. */
  readonly errors: readonly string[];
  /** The keys whose files have become missing or wrong: their last good version stays in use. */
  readonly refused: readonly string[];
}

/** `failed`: something was wrong, and has changed nothing. */
export const reloadOutcomes = ["applied", "unchanged", "failed"] as const;

export type ReloadOutcome = (typeof reloadOutcomes)[number];

export function reloadOutcome({ ok, changed }: ReloadResult): ReloadOutcome {
  if (!ok) return "failed";
  return changed.length > 0 ? "applied" : "unchanged";
}

/** How a configuration is tried: the one before comes back by itself. */
export interface TrialTerms {
  /** It has to be confirmed within this time. */
  readonly confirmWithinMs: number;
  /** It is taken back if more than this share of the requests is refused that the one before would have admitted; null: never. */
  readonly refusedShare: number | null;
  /** What happens to a configuration that nobody has confirmed in time. */
  readonly unconfirmed: (typeof unconfirmedEnds)[number];
}

export const unconfirmedEnds = ["takeBack", "keep"] as const;

/** What was judged, of a sample of clients. */
export interface TrialTally {
  /** Requests that the configuration before would have admitted. */
  readonly judged: number;
  /** Those of them that were throttled. */
  readonly refused: number;
}

/** A configuration that is on trial. Instants are of the wall clock. */
export interface ReloadTrial extends TrialTerms, TrialTally {
  /** What has begun it. */
  readonly cause: ReloadCause;
  /** Who asked for it, as the admin API names callers; null: nobody, or a program. */
  readonly by: string | null;
  readonly sinceMs: number;
  readonly endsMs: number;
  /** The keys whose values differ from those of the configuration before. */
  readonly changed: readonly string[];
  /** The values of those keys before and now. Empty if a program passed settings that were not written anywhere. */
  readonly changes: readonly SettingChange[];
}

/** `reload`: another one, that was not on trial. */
export const confirmReasons = ["asked", "time", "reload"] as const;

export const takeBackReasons = ["asked", "time", "refused"] as const;

export type ConfirmReason = (typeof confirmReasons)[number];

export type TakeBackReason = (typeof takeBackReasons)[number];

/** Why a trial is over. */
export interface TrialEnding<Reason extends ConfirmReason | TakeBackReason> {
  readonly reason: Reason;
  /** Who asked for it, as the admin API names callers; null: nobody, or a program. */
  readonly by: string | null;
}

/** `drained`: the process ends, and the next start uses what the file has. */
export type TrialEnd =
  | { readonly kind: "drained"; readonly reason: null; readonly by: null }
  | ({ readonly kind: "confirmed" } & TrialEnding<ConfirmReason>)
  | ({ readonly kind: "taken_back" } & TrialEnding<TakeBackReason>);

export type TrialEvent = { readonly trial: ReloadTrial } & (
  | { readonly kind: "begun"; readonly reason: null; readonly by: null }
  | TrialEnd
);
