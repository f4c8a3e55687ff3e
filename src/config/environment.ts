// Turns environment variables into overrides: HEADGATE_UPSTREAM_CONNECT_TIMEOUT is upstream.connectTimeout. A HEADGATE_
// variable that names no key is an error, except those that Kubernetes sets by itself.
import { type ConfigError, didYouMean, type Origin } from "./config-error.ts";
import { suggestions } from "./nearest.ts";
import type { Override } from "./overrides.ts";
import { allEntries, joinPath } from "./paths.ts";

export type Environment = Readonly<Record<string, string | undefined>> & {
  readonly HEADGATE_CONFIG?: string | undefined;
};

/** Variables that are not keys: the path of the file, and what the tests must not skip. */
const otherVariables = new Set(["HEADGATE_CONFIG", "HEADGATE_REQUIRE"]);

/** `policies.0.match.paths` is HEADGATE_POLICIES_0_MATCH_PATHS. */
export function variableName(path: readonly string[]): string {
  return `HEADGATE_${path.map((key) => key.replaceAll(/[A-Z]/g, "_$&").toUpperCase()).join("_")}`;
}

/** A list comes before its items, so that the more specific override wins. */
export function readEnvironment(env: Environment): { readonly overrides: Override[]; readonly errors: ConfigError[] } {
  const overrides: Override[] = [];
  const errors: ConfigError[] = [];
  for (const variable of Object.keys(env).toSorted()) {
    const text = env[variable];
    if (text === undefined || !variable.startsWith("HEADGATE_") || otherVariables.has(variable)) continue;
    if (isServiceLink(variable, text)) continue;
    const at = { kind: "environment", variable } as const;
    const path = pathOf(variable);
    if (path !== undefined) overrides.push({ path, text, at });
    else errors.push(unknownVariable(at));
  }
  return { overrides: overrides.toSorted((a, b) => a.path.length - b.path.length), errors };
}

/** Includes sections and lists, which can be given as a whole. */
const pathsByVariable = new Map(
  allEntries().flatMap(({ path }) =>
    path.map((_, i) => path.slice(0, i + 1)).map((part) => [variableName(part), part] as const),
  ),
);

function pathOf(variable: string): readonly string[] | undefined {
  const exact = pathsByVariable.get(variable);
  if (exact !== undefined) return exact;
  // Items of lists: a known name with other indices, and perhaps the index of a scalar at its end.
  const indices = [...variable.matchAll(indexPattern)].map(([, index = ""]) => index);
  const withIndices = (path: readonly string[]): string[] => {
    let i = 0;
    return path.map((key) => (key === "0" ? (indices[i++] ?? "0") : key));
  };
  const first = pathsByVariable.get(variable.replaceAll(indexPattern, "_0"));
  if (first !== undefined) return withIndices(first);
  const last = indices.at(-1);
  if (last === undefined || !variable.endsWith(`_${last}`)) return undefined;
  const list = pathsByVariable.get(variable.slice(0, -last.length - 1).replaceAll(indexPattern, "_0"));
  return list === undefined ? undefined : [...withIndices(list), last];
}

const indexPattern = /_(\d{1,4})(?=_|$)/g;

/** Variables by their names without prefix and indices, which people often leave out. */
const variablesByShortName = new Map([...pathsByVariable.keys()].map((variable) => [shortName(variable), variable]));

function shortName(variable: string): string {
  return variable.replace(/^HEADGATE_/, "").replaceAll(/_\d+(?=_|$)/g, "");
}

function unknownVariable(at: Extract<Origin, { kind: "environment" }>): ConfigError {
  const meant = suggestions(shortName(at.variable), [...variablesByShortName.keys()]).map(
    (name) => variablesByShortName.get(name) ?? name,
  );
  const otherwise = "expected HEADGATE_ and the path of a key, such as HEADGATE_UPSTREAM_URL";
  return {
    at,
    key: "",
    message: `unknown variable; ${didYouMean(meant, otherwise)}`,
    about: meant.map((variable) => joinPath(pathsByVariable.get(variable) ?? [])),
  };
}

/**
 * For a Service named headgate or headgate-admin, Kubernetes sets such variables in every pod of the namespace
 * (HEADGATE_SERVICE_HOST, HEADGATE_ADMIN_PORT=tcp://10.0.0.1:9464, …). They are not meant for the gateway.
 */
function isServiceLink(variable: string, text: string): boolean {
  if (/_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$/.test(variable)) return true;
  if (/_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/.test(variable)) return true;
  return variable.endsWith("_PORT") && /^(tcp|udp|sctp):\/\//.test(text);
}
