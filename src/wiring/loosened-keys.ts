// The keys by which a reload gives up protection: the log says so as a warning, because a mistake in a file may be the
// reason.
import { type Raw, rawAt } from "../config/written.ts";
import type { Settings } from "../core/settings.ts";

/** Settings, with the values as they were written; null: a program passed them. */
export interface Written {
  readonly settings: Settings;
  readonly raw: { readonly root: Raw | undefined } | null;
}

const strictness = { off: 0, presence: 1, tokens: 2 } as const;

/** `auth.mode`, if it asks for less; `policies`, if there is no list any more, so that the one default policy applies. */
export function loosenedKeys(before: Written, after: Written): string[] {
  const [old, now] = [strictness[before.settings.auth.mode], strictness[after.settings.auth.mode]];
  const isListGone = hasPolicies(before) && after.raw !== null && !hasPolicies(after);
  return [...(now < old ? ["auth.mode"] : []), ...(isListGone ? ["policies"] : [])];
}

function hasPolicies({ raw }: Written): boolean {
  return rawAt(raw?.root, ["policies"])?.kind === "list";
}
