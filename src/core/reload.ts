// What a reload is caused by, and what it comes to.

/** `signal`: SIGHUP. `file`: a watched file has changed. `call`: a program asked for it. */
export type ReloadCause = "signal" | "file" | "call";

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
