// Puts other settings into force: makes the new configuration whole, then replaces the old one in one step. What is
// wrong with the new settings is an answer, and changes nothing.
import { FilesError } from "../config/watched-files.ts";
import { failureCode } from "../core/failure.ts";
import type { FileError } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import { changedKeys } from "./changed-keys.ts";
import { type ConfigurationBase, configure } from "./configuration.ts";
import type { InForce } from "./in-force.ts";
import type { ReloadResult } from "./reloads.ts";
import { emptyPolicies, withoutRestart } from "./restart-keys.ts";

export async function putIntoForce(wanted: Settings, inForce: InForce, base: ConfigurationBase): Promise<ReloadResult> {
  const before = inForce.configuration;
  const { settings, keys } = withoutRestart(wanted, before.settings);
  const changed = changedKeys(before.settings, settings);
  if (changed.length === 0) return { ok: true, changed, reset: [], restart: keys };
  try {
    inForce.replace(await configure(settings, base, before), base);
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    return { ok: false, errors: error.errors.map(explain) };
  }
  return { ok: true, changed, reset: emptyPolicies(settings.policies, before.settings.policies), restart: keys };
}

/** Paths and contents of files stay out of the log. */
function explain(error: FileError): string {
  if (error.kind === "unreadable") return `${error.key}: cannot be read: ${failureCode(error.cause)}`;
  const { key, line, found, expected } = error;
  return `${key}: ${line === undefined ? "" : `line ${line}: `}found ${found}, expected ${expected}`;
}
