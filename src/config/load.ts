// The one way from what was written to Settings: file, then environment, then command line, each over the one before,
// each checked by itself. Either everything is right, or every mistake is in the answer. Opens no port, changes
// nothing.
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Settings } from "../core/settings.ts";
import type { ListenerTls } from "../core/tls.ts";
import { type ConfigError, renderConfigError, renderPlace, soundness } from "./config-error.ts";
import { type Environment, readEnvironment } from "./environment.ts";
import { type NamedFiles, namedFiles } from "./named-files.ts";
import { applyOverrides, type Override } from "./overrides.ts";
import { pairErrors } from "./pairs.ts";
import { originOf, type Raw } from "./raw.ts";
import { explainReadFailure, readRegularFileSync } from "./regular-file.ts";
import type { ParsedConfig } from "./schema.ts";
import { validateConfig } from "./validate.ts";
import { readYaml, type YamlReading } from "./yaml-source.ts";

/** From src/config as from dist/config. */
export const packagedConfigFile = fileURLToPath(new URL("../../config/headgate.yaml", import.meta.url));

export interface ConfigSources {
  /** `--config`. Without it HEADGATE_CONFIG counts, else the packaged file. */
  readonly file?: string | undefined;
  readonly env: Environment;
  /** What relative paths start from, save those written in the file: they start from its folder. */
  readonly cwd: string;
  /** Flags and `--set`, in the order they were given. */
  readonly overrides: readonly Override[];
}

export type LoadedSettings =
  | {
      readonly ok: true;
      readonly settings: Settings;
      /** The file that was read, as it was named. */
      readonly file: string;
      readonly files: NamedFiles;
      /** What was written, all sources over each other. */
      readonly raw: Raw | undefined;
    }
  | {
      readonly ok: false;
      readonly file: string;
      /** Those whose names are no mistake. */
      readonly files: NamedFiles;
      readonly errors: readonly ConfigError[];
    };

export function loadSettings({ file: named, env, cwd, overrides }: ConfigSources): LoadedSettings {
  // An empty HEADGATE_CONFIG is how a compose file or a shell says "none".
  const file = named ?? (env.HEADGATE_CONFIG || packagedConfigFile);
  const written = readConfigFile(file, cwd);
  const environment = readEnvironment(env);
  const errors = [...written.errors, ...environment.errors];

  const withEnvironment = applyOverrides(written.raw, environment.overrides, errors);
  const raw = applyOverrides(withEnvironment, overrides, errors);
  const { values, errors: lastErrors } = validateConfig(raw);
  errors.push(...lastErrors);
  errors.push(...pairErrors(values, raw, soundness(errors)));
  const absolute = (key: string, path: string): string => resolve(folderOf(key, raw, file, cwd), path);
  const files = namedFiles(values, soundness(errors), absolute, (key) => renderPlace(originOf(raw, key), key));
  // Each source is checked before the next covers it: a mistake does not become right by being overridden today.
  for (const layer of new Set([written.raw, withEnvironment])) {
    if (layer !== raw) errors.push(...validateConfig(layer).errors);
  }
  if (errors.length > 0) return { ok: false, file, files, errors: firstOf(distinct(errors)) };
  return { ok: true, settings: toSettings(values, absolute), file, files, raw };
}

function distinct(errors: readonly ConfigError[]): ConfigError[] {
  const byLine = new Map(errors.map((error) => [renderConfigError(error), error]));
  return [...byLine.values()].sort((a, b) => placeOf(a) - placeOf(b));
}

/** The file's mistakes come in the order of its lines, then those of the other sources. */
function placeOf({ at }: ConfigError): number {
  if (at.kind === "whole file") return 0;
  return at.kind === "file" ? at.line * 1e6 + at.column : Number.MAX_SAFE_INTEGER;
}

const maxErrors = 100;

function firstOf(errors: readonly ConfigError[]): readonly ConfigError[] {
  const next = errors[maxErrors];
  if (next === undefined) return errors;
  const message = `${errors.length - maxErrors} more mistakes`;
  return [...errors.slice(0, maxErrors), { at: next.at, key: "", message, about: [] }];
}

const maxFileBytes = 256 * 1024;

function readConfigFile(file: string, cwd: string): YamlReading {
  const refuse = (message: string): YamlReading => ({
    raw: undefined,
    errors: [{ at: { kind: "whole file", file }, key: "", message, about: [""] }],
  });
  let bytes: Buffer;
  try {
    bytes = readRegularFileSync(resolve(cwd, file));
  } catch (cause) {
    return refuse(`cannot be read: ${explainReadFailure(cause)}`);
  }
  if (bytes.length > maxFileBytes) return refuse("found more than 256 KiB, expected a configuration");
  try {
    return readYaml(new TextDecoder("utf-8", { fatal: true }).decode(bytes), file);
  } catch (cause) {
    if (cause instanceof TypeError) return refuse("found bytes that are not UTF-8, expected text");
    throw cause;
  }
}

/** What a path starts from, by where it was written. */
function folderOf(key: string, raw: Raw | undefined, file: string, cwd: string): string {
  return originOf(raw, key).kind === "file" ? dirname(resolve(cwd, file)) : cwd;
}

function toSettings(values: ParsedConfig, absolute: (key: string, path: string) => string): Settings {
  const { listen, upstream, upgrade, auth, extAuth, timeouts, drain, policies } = values;
  const [policy] = policies;
  if (policy === undefined) throw new Error("the definition lets no list of policies be empty");
  const { window: windowMs, ...counted } = policy;
  const path = (key: string, written: string | null): string | null =>
    written === null ? null : absolute(key, written);
  return {
    ...values,
    listen: { ...listen, tls: listenerTls(listen.tls, absolute) },
    upstream: {
      url: upstream.url,
      addresses: upstream.addresses,
      tls: {
        ...upstream.tls,
        ca: path("upstream.tls.ca", upstream.tls.ca),
        cert: path("upstream.tls.cert", upstream.tls.cert),
        key: path("upstream.tls.key", upstream.tls.key),
      },
      healthCheck: {
        path: upstream.healthCheck.path,
        intervalMs: upstream.healthCheck.interval,
        timeoutMs: upstream.healthCheck.timeout,
      },
      connectTimeoutMs: upstream.connectTimeout,
      responseTimeoutMs: upstream.responseTimeout,
      maxConnections: upstream.maxConnections,
    },
    upgrade: {
      protocols: upgrade.protocols,
      maxTunnels: upgrade.maxTunnels,
      idleTimeoutMs: upgrade.idleTimeout,
    },
    policies: [{ ...counted, windowMs }],
    auth: { ...auth, tokensFile: path("auth.tokensFile", auth.tokensFile) },
    extAuth: {
      http: extAuth.http.enabled ? extAuth.http : null,
      grpc: extAuth.grpc.enabled ? extAuth.grpc : null,
      trustedCallers: extAuth.trustedCallers,
      secretsFile: path("extAuth.secretsFile", extAuth.secretsFile),
      denyStatus: extAuth.denyStatus,
    },
    timeouts: { headMs: timeouts.head, bodyMs: timeouts.body, keepAliveMs: timeouts.keepAlive },
    drain: { delayMs: drain.delay, timeoutMs: drain.timeout },
  };
}

function listenerTls(
  { cert, key, clientCa, http2 }: ParsedConfig["listen"]["tls"],
  absolute: (key: string, path: string) => string,
): ListenerTls | null {
  if (cert === null || key === null) return null;
  return {
    cert: absolute("listen.tls.cert", cert),
    key: absolute("listen.tls.key", key),
    clientCa: clientCa === null ? null : absolute("listen.tls.clientCa", clientCa),
    http2,
  };
}
