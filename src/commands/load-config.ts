// The configuration for the commands that take one, tokens file included: either all of it is right, or every mistake
// is on standard error, a line each.
import { renderConfigError } from "../config/config-error.ts";
import { type LoadedSettings, loadSettings } from "../config/load.ts";
import type { ConfigArguments } from "./arguments.ts";
import type { CommandIo } from "./io.ts";
import { tokensFileErrors } from "./tokens-file-errors.ts";

export type LoadedConfig = Extract<LoadedSettings, { ok: true }>;

/** Undefined if there was a mistake; it has been told then. */
export function loadConfig({ file, overrides }: ConfigArguments, io: CommandIo): LoadedConfig | undefined {
  const loaded = loadSettings({ file, env: io.env, cwd: io.cwd, overrides });
  const errors = loaded.ok ? tokensFileErrors(loaded.settings, io.cwd) : loaded.errors.map(renderConfigError);
  io.err(errors.map((line) => `${line}\n`).join(""));
  return loaded.ok && errors.length === 0 ? loaded : undefined;
}
