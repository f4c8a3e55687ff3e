// Loads the settings: the file, then the environment, then the command line, each of which overrides the one before and
// is checked by itself. Returns the settings or all errors. Opens no port and changes nothing.

import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Settings } from "../core/settings.ts";
import { nodeAt } from "./definition.ts";
import { explainReadFailure, readRegularFileSync } from "./files.ts";
import { applyOverrides, type Environment, type Override, readEnvironment } from "./overrides.ts";
import { pairErrors, schema, toSettings } from "./schema.ts";
import { type ResolvePath, validate } from "./validate.ts";
import { type ConfigError, originOf, type Raw, rawAt, renderConfigError, renderPlace, soundness } from "./written.ts";
import { readYaml, type YamlReading } from "./yaml-source.ts";

export interface SettingsSource {
  /** The path of the configuration file, absolute; null: it was read from standard input, once. */
  readonly file: string | null;
  /** `isStart`: the start has loaded them, and logged what it made of them. */
  load(isStart?: boolean): SettingsLoaded;
}

type SettingsLoaded =
  | {
      readonly ok: true;
      readonly settings: Settings;
      /** The place of a key and the key, with which an error about its file begins. */
      readonly place: (key: string) => string;
      /** As they were written. */
      readonly raw: Raw | undefined;
    }
  | { readonly ok: false; readonly errors: readonly string[] };

/** The same relative path from src/config and from dist/config. */
export const packagedConfigFile = fileURLToPath(new URL("../../config/headgate.yaml", import.meta.url));

interface ConfigSources {
  /** `--config`. The default is HEADGATE_CONFIG, then the packaged file. */
  readonly file?: string | undefined;
  /** What is read in place of the file, if that is `-`. */
  readonly input?: Buffer | null;
  readonly env: Environment;
  /** Where relative paths start, except those in the file, which start at its folder. */
  readonly cwd: string;
  /** Flags and `--set`, in the order they were given. */
  readonly overrides: readonly Override[];
  /** How many processors the container may use, for `workers: auto`. Default: one. */
  readonly processors?: () => number;
}

/** The files that a configuration names, even if it has errors, so that all errors are reported at once. */
export interface NamedFiles {
  /** An absolute path; null if the key names no file, or if there is an error about the key. */
  readonly path: (key: string) => string | null;
  /** The place of a key and the key, with which each error begins. */
  readonly place: (key: string) => string;
}

export type LoadedSettings = {
  /** The path of the file, as it was given. */
  readonly file: string;
  readonly files: NamedFiles;
} & (
  | {
      readonly ok: true;
      readonly settings: Settings;
      /** The values as they were written in all sources. */
      readonly raw: Raw | undefined;
    }
  | { readonly ok: false; readonly errors: readonly ConfigError[] }
);

/** The name of the configuration file: `-` stands for standard input. */
export function configFileOf(named: string | undefined, env: Environment): string {
  // Compose files and shells set HEADGATE_CONFIG to an empty text if it has no value.
  return named ?? (env.HEADGATE_CONFIG || packagedConfigFile);
}

/** How standard input is named as a file. */
export const inputFile = "-";
const inputName = "standard input";

export function loadSettings(sources: ConfigSources): LoadedSettings {
  const { env, cwd, overrides, input = null, processors = () => 1 } = sources;
  const named = configFileOf(sources.file, env);
  const isInput = named === inputFile && input !== null;
  const file = isInput ? inputName : named;
  const written = readConfigFile(file, isInput ? () => input : () => readRegularFileSync(resolve(cwd, named)));
  const environment = readEnvironment(env);
  const errors = [...written.errors, ...environment.errors];

  const withEnvironment = applyOverrides(written.raw, environment.overrides, errors);
  const raw = applyOverrides(withEnvironment, overrides, errors);
  const folder = dirname(resolve(cwd, file));
  const resolvePath: ResolvePath = (path, at) => resolve(at.kind === "file" ? folder : cwd, path);
  const { values, errors: lastErrors } = validate(schema, raw, resolvePath);
  errors.push(...lastErrors);
  errors.push(...pairErrors(values, raw, soundness(errors)));
  // Each source is checked by itself: an error stays an error if another source overrides the value.
  for (const layer of new Set([written.raw, withEnvironment])) {
    if (layer !== raw) errors.push(...validate(schema, layer).errors);
  }
  const isSound = soundness(errors);
  const files: NamedFiles = {
    path: (key) => {
      const [written, node] = [rawAt(raw, key.split(".")), nodeAt(schema, key.split("."))];
      if (written?.kind !== "scalar" || node?.kind !== "leaf" || !isSound(key)) return null;
      const path = node.parse(written.value);
      return typeof path === "string" ? resolvePath(path, written.at) : null;
    },
    place: (key) => renderPlace(originOf(raw, key), key),
  };
  if (errors.length > 0) return { ok: false, file, files, errors: firstOf(distinct(errors)) };
  return { ok: true, settings: toSettings(values, processors), file, files, raw };
}

function distinct(errors: readonly ConfigError[]): ConfigError[] {
  const byLine = new Map(errors.map((error) => [renderConfigError(error), error]));
  return [...byLine.values()].sort((a, b) => lineOf(a) - lineOf(b));
}

/** Errors of the file come first, in the order of its lines. */
function lineOf({ at }: ConfigError): number {
  if (at.kind === "whole file") return 0;
  return at.kind === "file" ? at.line * 1e6 + at.column : Number.MAX_SAFE_INTEGER;
}

const maxErrors = 100;

function firstOf(errors: readonly ConfigError[]): readonly ConfigError[] {
  const next = errors[maxErrors];
  if (next === undefined) return errors;
  const message = `${errors.length - maxErrors} more errors`;
  return [...errors.slice(0, maxErrors), { at: next.at, key: "", message, about: [] }];
}

export const maxFileBytes = 256 * 1024;

/** `file`: its name in messages. */
function readConfigFile(file: string, read: () => Buffer): YamlReading {
  const refuse = (message: string): YamlReading => ({
    raw: undefined,
    errors: [{ at: { kind: "whole file", file }, key: "", message, about: [""] }],
  });
  let bytes: Buffer;
  try {
    bytes = read();
  } catch (cause) {
    return refuse(`cannot be read: ${explainReadFailure(cause)}`);
  }
  if (bytes.length > maxFileBytes) return refuse("found more than 256 KiB, expected a configuration");
  try {
    const reading = readYaml(new TextDecoder("utf-8", { fatal: true }).decode(bytes), file);
    return saysNothing(reading) ? refuse(withoutKeys) : reading;
  } catch (cause) {
    if (cause instanceof TypeError)
      return refuse(`found ${isUtf16(bytes) ? "UTF-16" : "bytes that are not UTF-8"}, expected text in UTF-8`);
    throw cause;
  }
}

/** By its byte order mark; older versions of PowerShell write such files. */
const isUtf16 = ([first, second]: Uint8Array): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);

/** A file that lost its contents must not stand for the defaults: a reload would remove all policies. */
const withoutKeys = "found no key, expected a configuration; write {} for one with all defaults";

/** Of an empty file, and of one with blanks or comments alone. */
function saysNothing({ raw, errors }: YamlReading): boolean {
  return errors.length === 0 && (raw === undefined || (raw.kind === "scalar" && raw.value === null));
}
