// Loads the configuration for the commands that need one, and checks the files that it names. Writes all errors to
// standard error, one line each.
import { resolve } from "node:path";
import { unlisted } from "../config/auth.ts";
import { type LoadedSettings, loadSettings, type SettingsSource } from "../config/load.ts";
import { renderConfigError } from "../config/written.ts";
import { systemClock } from "../core/clock.ts";
import type { ConfigArguments } from "./arguments.ts";
import { judgeFiles } from "./file-errors.ts";
import type { CommandIo } from "./io.ts";
import { availableProcessors } from "./processors.ts";

type LoadedConfig = Extract<LoadedSettings, { ok: true }> & {
  /** The names in `auth.tokensFile`. */
  readonly tokenNames: ReadonlySet<string>;
};

/** Undefined if there were errors; they have been written then. */
export async function loadConfig(
  { file, overrides }: ConfigArguments,
  io: CommandIo,
): Promise<LoadedConfig | undefined> {
  const loaded = loadSettings({ file, env: io.env, cwd: io.cwd, overrides, processors: availableProcessors });
  const files = await judgeFiles(loaded.files, io.cwd, systemClock.wallMs());
  const errors = [...(loaded.ok ? [] : loaded.errors.map(renderConfigError)), ...files.errors];
  const unlistedNames = loaded.ok ? unlisted(loaded.settings, files.tokens) : [];
  const warnings = unlistedNames.map(({ key, detail }) => `${loaded.files.place(key)}: warning: ${detail}`);
  io.err([...errors, ...files.warnings, ...warnings].map((line) => `${line}\n`).join(""));
  if (!loaded.ok || errors.length > 0) return undefined;
  return { ...loaded, tokenNames: files.tokens?.names() ?? new Set() };
}

/** Loads the same file, environment and arguments again; without a file of their own, the packaged one. */
export function settingsSource(
  { file, overrides }: ConfigArguments,
  named: string,
  { env, cwd }: CommandIo,
): SettingsSource {
  return {
    file: resolve(cwd, named),
    load() {
      const loaded = loadSettings({ file, env, cwd, overrides, processors: availableProcessors });
      if (loaded.ok) return { ok: true, settings: loaded.settings, place: loaded.files.place, raw: loaded.raw };
      return { ok: false, errors: loaded.errors.map(renderConfigError) };
    },
  };
}
