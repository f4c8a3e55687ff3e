// Finds settings that are valid and probably not what is meant. `headgate check` prints these warnings, the start logs
// them, and `check --diff` and a reload show those that are new.
import { anonymousWarnings } from "./anonymous-warnings.ts";
import { policyWarnings } from "./policy-warnings.ts";
import { storeWarnings } from "./store-warnings.ts";
import { trustWarnings } from "./trust-warnings.ts";
import type { WarnedSettings } from "./warned-settings.ts";

export function configurationWarnings(settings: WarnedSettings): readonly string[] {
  return [
    ...trustWarnings(settings),
    ...policyWarnings(settings),
    ...anonymousWarnings(settings),
    ...storeWarnings(settings),
    ...(settings.upstream?.tls.insecureSkipVerify === true
      ? ["upstream.tls.insecureSkipVerify is true: anyone on the network path can impersonate the upstream"]
      : []),
  ];
}

/** Returns the warnings about `settings` that there were not about `before`. */
export function addedWarnings(before: WarnedSettings | null, settings: WarnedSettings): readonly string[] {
  const known = new Set(before === null ? [] : configurationWarnings(before));
  return configurationWarnings(settings).filter((warning) => !known.has(warning));
}
