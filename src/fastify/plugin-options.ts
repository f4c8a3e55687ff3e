// The options of the Fastify plugin: keys of the configuration file with the same names, rules and messages. Reports every
// error, not only the first.
import { resolve } from "node:path";
import { type Parsed, section, type WordsOfOthers } from "../config/definition.ts";
import { toPolicy, wordsForPolicies } from "../config/policies.ts";
import { pluginPairErrors, schema } from "../config/schema.ts";
import { validate } from "../config/validate.ts";
import {
  type ConfigError,
  joinPath,
  originOf,
  type Raw,
  type RawEntry,
  rawAt,
  renderConfigError,
  soundness,
  valueError,
} from "../config/written.ts";
import { enumerate } from "../core/enumerate.ts";
import type { AccessLogSettings, BodyTimeouts, RequestSettings } from "../core/settings.ts";
import type { UpstreamHostSettings } from "../core/upstream.ts";

const { policies, enforcement, refusals, auth, clientAddress, cors, errors, fields, resetFormat, routes } = schema.keys;
const { counters, maxBodyBytes, maxTargetBytes, timeouts, upstream, log, requestId } = schema.keys;
const { addresses, healthCheck, ...upstreamKeys } = upstream.keys;
const { body, bodyRate, linger } = timeouts.keys;

const wordsForOptions: WordsOfOthers = {
  ...wordsForPolicies,
  "deny denyList block blockList blacklist ban": "the plugin blocks nobody: put the gateway in front of the app",
  quota:
    "only the gateway answers callers that ask what they have left; the plugin says it in the headers of each response",
  readiness: "a load balancer asks the app: give it a route with config: { headgate: false }, which asks for no token",
  maxHeaderBytes: "the server of the app reads heads before any plugin: give serverOptions({ maxHeaderBytes: 32768 })",
};

const wordsForCounters: WordsOfOthers = {
  "store redis":
    "the plugin counts in its own process; a limit over several processes needs the gateway in front of them",
  snapshot: "the plugin keeps no counters over a restart",
};

export const pluginOptions = section(
  "The options of the Fastify plugin.",
  {
    ...{ policies, enforcement, refusals, auth, clientAddress, cors, errors, requestId, fields, resetFormat },
    ...{ maxBodyBytes, maxTargetBytes },
    counters: section(counters.description, { memory: counters.keys.memory }, wordsForCounters),
    routes: { ...routes, default: ["/"] },
    timeouts: section(timeouts.description, { body, bodyRate, linger }),
    upstream: section(upstream.description, upstreamKeys),
    log: section(log.description, { access: log.keys.access, subject: log.keys.subject }),
  },
  wordsForOptions,
);

export interface PluginSettings extends RequestSettings {
  readonly counters: { readonly memoryBytes: number };
  readonly timeouts: BodyTimeouts;
  /** Null: the app answers all requests itself. */
  readonly upstream: UpstreamHostSettings | null;
  readonly log: AccessLogSettings;
}

/** The options cannot be used. */
export class OptionsError extends Error {
  constructor(errors: readonly string[]) {
    super(`The options of headgate are not valid:\n${errors.map((error) => `  ${error}`).join("\n")}`);
    this.name = "OptionsError";
  }
}

/** Relative paths of files start at the current folder. Throws an OptionsError. */
export function parsePluginOptions(options: unknown): PluginSettings {
  const errors: ConfigError[] = [];
  const raw = rawOf(options, [], errors);
  const { values, errors: invalid } = validate(pluginOptions, raw, (path) => resolve(path));
  const known = new Set(errors.map(({ key }) => key));
  errors.push(...[...invalid, ...nullErrors(raw)].filter(({ key }) => !known.has(key)), ...upstreamErrors(raw));
  errors.push(...pluginPairErrors({ ...values, basePath: "/" }, raw, soundness(errors)));
  if (errors.length > 0) throw new OptionsError(errors.map(renderConfigError));
  return toSettings(values, raw);
}

function toSettings(values: Parsed<typeof pluginOptions>, raw: Raw): PluginSettings {
  return {
    ...values,
    policies: values.policies.map(toPolicy),
    counters: { memoryBytes: values.counters.memory },
    upstream: hasUpstream(raw) ? values.upstream : null,
  };
}

/** In YAML a section may be empty; here null would look as if it turned something off. */
function nullErrors(raw: Raw): ConfigError[] {
  return Object.entries(pluginOptions.keys).flatMap(([key, node]) => {
    const written = rawAt(raw, [key]);
    const isNull =
      node.kind === "section" && key !== "upstream" && written?.kind === "scalar" && written.value === null;
    return isNull ? [valueError(at, key, "null", `an object of ${enumerate(Object.keys(node.keys), "and")}`)] : [];
  });
}

function hasUpstream(raw: Raw): boolean {
  return rawAt(raw, ["upstream"])?.kind === "mapping";
}

/** The default URL is that of a demonstration: whoever wants an upstream names it. */
function upstreamErrors(raw: Raw): ConfigError[] {
  if (!hasUpstream(raw) || rawAt(raw, ["upstream", "url"]) !== undefined) return [];
  return [valueError(originOf(raw, "upstream"), "upstream.url", "nothing", upstreamKeys.url.expected)];
}

const at = { kind: "options" } as const;
const maxDepth = 10;

/** Keys whose value is undefined are left out. What is no data (a function, a Date) is an error and counts as nothing. */
function rawOf(value: unknown, path: readonly string[], errors: ConfigError[]): Raw {
  switch (typeof value) {
    case "string":
    case "number":
    case "boolean":
      return { kind: "scalar", at, value };
    case "object":
      if (value === null) return { kind: "scalar", at, value };
      if (path.length > maxDepth) break;
      if (Array.isArray(value)) {
        return { kind: "list", at, items: value.map((item, i) => rawOf(item, [...path, String(i)], errors)) };
      }
      if (isPlain(value)) return { kind: "mapping", at, entries: entriesOf(value, path, errors) };
  }
  errors.push(valueError(at, joinPath(path), nameOf(value), "a value that the configuration file can have as well"));
  return { kind: "scalar", at, value: null };
}

function entriesOf(object: object, path: readonly string[], errors: ConfigError[]): RawEntry[] {
  return Object.entries(object)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ({ key, keyAt: at, value: rawOf(value, [...path, key], errors) }));
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function nameOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return typeof value;
  return isPlain(value) || Array.isArray(value) ? "values nested too deeply" : Object.prototype.toString.call(value);
}
