// Loads the configuration for the commands that need one, and checks the files that it names. Writes all errors to
// standard error, one line each.
import { resolve } from "node:path";
import { unlisted } from "../config/auth.ts";
import {
  configFileOf,
  inputFile,
  type LoadedSettings,
  loadSettings,
  maxFileBytes,
  type SettingsSource,
} from "../config/load.ts";
import { renderConfigError } from "../config/written.ts";
import { systemClock } from "../core/clock.ts";
import type { ConfigArguments } from "./arguments.ts";
import { judgeFiles } from "./file-errors.ts";
import type { CommandIo } from "./io.ts";
import { availableProcessors } from "./processors.ts";

type LoadedConfig = Extract<LoadedSettings, { ok: true }> & {
  /** The names in `auth.tokensFile`. */
  readonly tokenNames: ReadonlySet<string>;
  /** What was read from standard input; null: nothing. */
  readonly input: Buffer | null;
};

/** Undefined if there were errors; they have been written then. */
export async function loadConfig(
  { file, overrides }: ConfigArguments,
  io: CommandIo,
): Promise<LoadedConfig | undefined> {
  const input = configFileOf(file, io.env) === inputFile ? await io.readInput(maxFileBytes) : null;
  const loaded = loadSettings({ file, env: io.env, cwd: io.cwd, overrides, input, processors: availableProcessors });
  const files = await judgeFiles(loaded.files, io.cwd, systemClock.wallMs());
  const errors = [...(loaded.ok ? [] : loaded.errors.map(renderConfigError)), ...files.errors];
  const unlistedNames = loaded.ok ? unlisted(loaded.settings, files.tokens) : [];
  const warnings = unlistedNames.map(({ key, detail }) => `${loaded.files.place(key)}: warning: ${detail}`);
  io.err([...errors, ...files.warnings, ...warnings].map((line) => `${line}\n`).join(""));
  if (!loaded.ok || errors.length > 0) return undefined;
  return { ...loaded, input, tokenNames: files.tokens?.names() ?? new Set() };
}

/**
 * Loads the same file, environment and arguments again; without a file of their own, the packaged one. `input`: what the start
 * has read from standard input, where there is no more; null: nothing.
 */
export function settingsSource(
  { file, overrides }: ConfigArguments,
  named: string,
  { env, cwd }: CommandIo,
  input: Buffer | null = null,
): SettingsSource {
  return {
    file: input === null ? resolve(cwd, named) : null,
    load(isStart) {
      if (input !== null && isStart !== true) return { ok: false, errors: [inputIsOver] };
      const loaded = loadSettings({ file, env, cwd, overrides, input, processors: availableProcessors });
      if (loaded.ok) return { ok: true, settings: loaded.settings, place: loaded.files.place, raw: loaded.raw };
      return { ok: false, errors: loaded.errors.map(renderConfigError) };
    },
  };
}

const inputIsOver =
  "the configuration was read from standard input, which is read once; restart with the new one, or name a file in --config";
