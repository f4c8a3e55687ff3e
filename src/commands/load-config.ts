// Loads the configuration for the commands that need one, and checks the files that it names. Writes all errors to
// standard error, one line each.
import { isAbsolute, relative, resolve } from "node:path";
import { adminTokensFile } from "../admin/admin-tokens.ts";
import { secretsFile, type TokenList, tokensFile, writtenEnd } from "../auth/tokens-file.ts";
import { explainReadFailure, readFiles } from "../config/files.ts";
import {
  configFileOf,
  inputFile,
  type LoadedSettings,
  loadSettings,
  maxFileBytes,
  type NamedFiles,
  type SettingsSource,
} from "../config/load.ts";
import { unlisted } from "../config/unchecked-paths.ts";
import { type Raw, rawAt, renderConfigError } from "../config/written.ts";
import { endingSoonMs } from "../core/authentication.ts";
import { systemClock } from "../core/clock.ts";
import { enumerate } from "../core/enumerate.ts";
import { type FileError, type FileGroup, passwordIn } from "../core/file-group.ts";
import { linesText } from "./admin/printed.ts";
import type { ConfigArguments } from "./arguments.ts";
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
  const files = await validateFiles(loaded, io.cwd, systemClock.wallMs());
  const errors = [...(loaded.ok ? [] : loaded.errors.map(renderConfigError)), ...files.errors];
  const unlistedNames = loaded.ok ? unlisted(loaded.settings, files.tokens) : [];
  const switchedOff = loaded.ok ? writtenAsFalse(loaded.raw).map((key) => ({ key, detail: readAsOff })) : [];
  const warnings = [...switchedOff, ...unlistedNames].map(
    ({ key, detail }) => `${loaded.files.place(key)}: warning: ${detail}`,
  );
  io.err(linesText([...errors, ...files.warnings, ...warnings]));
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

const readAsOff =
  "false is read as off: no token is asked for; write mode: 'off', because YAML 1.1 takes off for false";

/** The modes of the token check that were written as `false`. */
function writtenAsFalse(raw: Raw | undefined): readonly string[] {
  const rules = rawAt(raw, ["auth", "rules"]);
  const ofRules = rules?.kind === "list" ? rules.items.map((_, i) => `auth.rules.${i}.mode`) : [];
  return ["auth.mode", ...ofRules].filter((key) => {
    const mode = rawAt(raw, key.split("."));
    return mode?.kind === "scalar" && mode.value === false;
  });
}

const inputIsOver =
  "the configuration was read from standard input, which is read once; restart with the new one, or name a file in --config";

interface FileFindings {
  readonly errors: readonly string[];
  /** Of files that can be used. */
  readonly warnings: readonly string[];
  /** Null if there is no list, or none that can be used. */
  readonly tokens: TokenList | null;
}

/**
 * Whether the files that the configuration names can be used, before anything is opened: one line for each error, in
 * the style of the configuration's own.
 */
async function validateFiles(loaded: LoadedSettings, cwd: string, wallMs: number): Promise<FileFindings> {
  const { path, place } = loaded.files;
  const tls = await validateTlsFiles(loaded, wallMs);
  const tokensPath = path("auth.tokensFile");
  const tokens = await readFiles(tokensFile("auth.tokensFile", tokensPath));
  const errors = [
    ...(tokens.ok ? [] : tokens.errors),
    ...(await errorsOf(secretsFile("extAuth.secretsFile", path("extAuth.secretsFile")))),
    ...(await errorsOf(adminTokensFile(path("admin.tokensFile")))),
    ...tls.certificates,
    ...tls.upstream,
    ...(await errorsOf(passwordFile("counters.redis.passwordFile", path))),
    ...(await errorsOf(passwordFile("counters.redis.sentinels.passwordFile", path))),
    ...tls.store,
  ];
  const warnings = [
    ...(tokens.ok ? endingWarnings(tokens.value, wallMs) : []),
    ...tls.warnings.map(({ key, warning }) => ({ key, warning: `the certificate ${warning}` })),
  ];
  return {
    errors: errors.map((error) => render(error, place(error.key), nameFrom(cwd, error.file))),
    warnings: warnings.map(({ key, warning }) => {
      return `${place(key)}: ${nameFrom(cwd, path(key) ?? "")}: warning: ${warning}`;
    }),
    tokens: tokens.ok && tokensPath !== null ? tokens.value : null,
  };
}

/** So many tokens are named at most. */
const maxNamed = 20;

/** Names are quoted as JSON, because a comment may have any characters. */
function endingWarnings(list: TokenList, wallMs: number): { readonly key: string; readonly warning: string }[] {
  const ending = list.endingBefore(wallMs + endingSoonMs);
  if (ending.length === 0) return [];
  const shown = ending.slice(0, maxNamed).map(({ tokenName, endsMs }) => {
    const name = tokenName === null ? "one without a name" : JSON.stringify(tokenName);
    return endsMs === null ? name : `${name} (${writtenEnd(endsMs)})`;
  });
  if (ending.length > maxNamed) shown.push(`${ending.length - maxNamed} more`);
  const warning = `listed tokens end soon, or have ended: ${enumerate(shown, "and")}`;
  return [{ key: "auth.tokensFile", warning }];
}

interface TlsFindings {
  /** Of the listeners. */
  readonly certificates: readonly FileError[];
  readonly upstream: readonly FileError[];
  readonly store: readonly FileError[];
  /** Of certificates that can be used. */
  readonly warnings: readonly { readonly key: string; readonly warning: string }[];
}

/** Imports TLS only if files of it are named, because a start without it is faster. */
async function validateTlsFiles(loaded: LoadedSettings, wallMs: number): Promise<TlsFindings> {
  const { path } = loaded.files;
  const listen = {
    cert: path("listen.tls.cert"),
    key: path("listen.tls.key"),
    clientCa: path("listen.tls.clientCa"),
  };
  const admin = { cert: path("admin.tls.cert"), key: path("admin.tls.key"), clientCa: null };
  const [upstream, store] = [clientPaths("upstream.tls", path), clientPaths("counters.redis.tls", path)];
  const named = [listen, admin, upstream, store].flatMap((paths) => Object.values(paths));
  if (named.every((file) => file === null)) return { certificates: [], upstream: [], store: [], warnings: [] };
  const {
    certificateWarning,
    outboundTlsFiles: clientTlsFiles,
    listenTlsFiles,
  } = await import("../config/tls-files.ts");
  const settings = loaded.ok ? loaded.settings : null;
  const listeners = [
    { key: "listen.tls.cert", read: await readFiles(listenTlsFiles({ ...settings?.listen.tls, ...listen })) },
    { key: "admin.tls.cert", read: await readFiles(listenTlsFiles({ ...settings?.admin.tls, ...admin }, "admin.tls")) },
  ];
  return {
    certificates: listeners.flatMap(({ read }) => (read.ok ? [] : read.errors)),
    upstream: await errorsOf(clientTlsFiles("upstream.tls", upstream)),
    store: await errorsOf(clientTlsFiles("counters.redis.tls", store)),
    warnings: listeners.flatMap(({ key, read }) => {
      const warning = read.ok ? certificateWarning(read.value, wallMs) : null;
      return warning === null ? [] : [{ key, warning }];
    }),
  };
}

function clientPaths(section: "upstream.tls" | "counters.redis.tls", path: NamedFiles["path"]) {
  return { ca: path(`${section}.ca`), cert: path(`${section}.cert`), key: path(`${section}.key`) };
}

async function errorsOf(group: FileGroup<unknown>): Promise<readonly FileError[]> {
  const read = await readFiles(group);
  return read.ok ? [] : read.errors;
}

function render(error: FileError, place: string, file: string): string {
  if (error.kind === "unreadable") return `${place}: ${file}: cannot be read: ${explainReadFailure(error.cause)}`;
  const { line, found, expected } = error;
  const at = line === undefined ? `${place}: ${file}` : `${file}:${line}`;
  return `${at}: found ${found}, expected ${expected}`;
}

/** Quotes nothing from the file. */
function passwordFile(key: string, pathOf: NamedFiles["path"]): FileGroup<string | null> {
  const path = pathOf(key);
  return {
    paths: { [key]: path },
    parse({ [key]: text }) {
      if (path === null) return { ok: true, value: null };
      if (text === undefined) return { ok: false, flaws: [] };
      const value = passwordIn(text);
      if (value !== null) return { ok: true, value };
      const found = text.trim() === "" ? "an empty file" : "several lines";
      return { ok: false, flaws: [{ key, found, expected: "one line with the password" }] };
    },
  };
}

/** Returns the name of a file in messages: relative to the working directory if it is inside. */
function nameFrom(cwd: string, file: string): string {
  const name = relative(cwd, file);
  return name === "" || name.startsWith("..") || isAbsolute(name) ? file : name;
}
