// Values from the environment and the command line: text for one path, parsed as its key requires, which replaces the value
// there. A section keeps the keys that are not named; a list is replaced as a whole. HEADGATE_UPSTREAM_CONNECT_TIMEOUT is
// upstream.connectTimeout; a HEADGATE_ variable that names no key is an error, except those that Kubernetes sets by itself.
import { allEntries, childOf, defaultOf, isListOfLeaves, type Leaf, type Node, nodeAt } from "./definition.ts";
import { schema } from "./schema.ts";
import { suggestions, unknownKey } from "./validate.ts";
import {
  type ConfigError,
  didYouMean,
  joinPath,
  type Origin,
  type Raw,
  rawAt,
  type Scalar,
  valueError,
} from "./written.ts";
import { readYaml } from "./yaml-source.ts";

export interface Override {
  readonly path: readonly string[];
  readonly text: string;
  readonly at: Origin;
}

/** The later override wins. An override of an unknown path is reported and ignored. */
export function applyOverrides(
  base: Raw | undefined,
  overrides: readonly Override[],
  errors: ConfigError[],
): Raw | undefined {
  return overrides.reduce<Raw | undefined>((raw, override) => {
    const { at } = override;
    const path = nodeAt(schema, override.path) ? override.path : (pathByIndex(raw, override.path) ?? override.path);
    const node = nodeAt(schema, path);
    if (node === undefined || path.length === 0) {
      errors.push(unknownKey(schema, at, path));
      return raw;
    }
    const value = readText(node, { ...override, path }, errors);
    const refuse = (index: string, expected: string) => errors.push(valueError(at, joinPath(path), index, expected));
    return value === undefined ? raw : put(schema, raw, path, value, refuse);
  }, base);
}

/** `policies.0.limit` for `policies.per-ip.limit`, as all pages call it; undefined if no policy has the name. */
function pathByIndex(raw: Raw | undefined, [list = "", name = "", ...rest]: readonly string[]) {
  const node = nodeAt(schema, [list]);
  const items = rawAt(raw, [list]) ?? (node?.kind === "list" ? defaultOf(node) : undefined);
  if (items?.kind !== "list") return undefined;
  const index = items.items.findIndex((item) => {
    const named = rawAt(item, ["name"]);
    return named?.kind === "scalar" && named.value === name;
  });
  return index === -1 ? undefined : [list, String(index), ...rest];
}

/** Undefined if the text cannot be parsed; the reason is then in `errors`. */
function readText(node: Node, { path, text, at }: Override, errors: ConfigError[]): Raw | undefined {
  if (node.kind === "leaf") return { kind: "scalar", at, value: readScalar(node, text) };
  if (node.kind === "list" && isListOfLeaves(node) && !text.trim().startsWith("[")) {
    const parts = text.trim() === "" ? [] : text.split(",");
    return {
      kind: "list",
      at,
      items: parts.map((part) => ({ kind: "scalar", at, value: readScalar(node.item, part.trim()) })),
    };
  }
  const reading = readYaml(text, "", { at, path });
  errors.push(...reading.errors);
  return reading.errors.length > 0 ? undefined : (reading.raw ?? { kind: "scalar", at, value: null });
}

/** Numbers and booleans as in YAML, except for keys whose values are text: `::` is an address, not a mapping. */
function readScalar(leaf: Leaf<unknown>, text: string): Scalar {
  if (leaf.isNullable && (text === "" || text === "null")) return null;
  if (leaf.form === "text") return text;
  if (/^[-+]?(0|[1-9]\d{0,14})$/.test(text)) return Number(text);
  return text === "true" || text === "false" ? text === "true" : text;
}

type RefuseIndex = (index: string, expected: string) => void;

function put(
  node: Node | undefined,
  base: Raw | undefined,
  [head, ...rest]: readonly string[],
  value: Raw,
  refuse: RefuseIndex,
): Raw {
  if (head === undefined) return putWhole(node, base, value);
  const child = node && childOf(node, head);
  if (node?.kind === "list") {
    // An index refers to the default list if the list was not written.
    const list = base?.kind === "list" ? base : defaultOf(node);
    const { at, items } = list;
    const index = Number(head);
    if (index > items.length) {
      refuse(head, `an index from 0 to ${items.length}`);
      return list;
    }
    const item = put(child, items[index], rest, value, refuse);
    // If the list becomes too long, the error is reported at the item that was added.
    return { kind: "list", at: index === items.length ? value.at : at, items: items.toSpliced(index, 1, item) };
  }
  const entries = base?.kind === "mapping" ? base.entries : [];
  const before = entries.find(({ key }) => key === head)?.value;
  const entry = { key: head, keyAt: value.at, value: put(child, before, rest, value, refuse) };
  const at = base?.at ?? value.at;
  return { kind: "mapping", at, entries: [...entries.filter(({ key }) => key !== head), entry] };
}

/** A section may be given as a whole, such as `--set 'listen={port: 80}'`. A variable that was left empty names no key. */
function putWhole(node: Node | undefined, base: Raw | undefined, value: Raw): Raw {
  if (node?.kind !== "section" || base?.kind !== "mapping") return value;
  if (value.kind !== "mapping") return value.kind === "scalar" && value.value === null ? base : value;
  const named = new Set(value.entries.map(({ key }) => key));
  const entries = value.entries.map((entry) => {
    const before = base.entries.find(({ key }) => key === entry.key)?.value;
    return { ...entry, value: putWhole(childOf(node, entry.key), before, entry.value) };
  });
  return { ...base, entries: [...base.entries.filter(({ key }) => !named.has(key)), ...entries] };
}

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
    // A file of variables with the line ends of Windows leaves a CR.
    const text = env[variable]?.trim();
    if (text === undefined || !variable.startsWith("HEADGATE_") || otherVariables.has(variable)) continue;
    if (isServiceLink(variable, text)) continue;
    const at = { kind: "environment", variable } as const;
    const path = pathOf(variable);
    if (path === undefined) errors.push(unknownVariable(at));
    else if (/^(["']).*\1$/s.test(text))
      errors.push(valueError(at, joinPath(path), "a value in quotes", withoutQuotes));
    else overrides.push({ path, text, at });
  }
  return { overrides: overrides.toSorted((a, b) => a.path.length - b.path.length), errors };
}

const withoutQuotes = "one without (docker's --env-file and the lists of compose files keep them)";

/** Includes sections and lists, which can be given as a whole. */
const pathsByVariable = new Map(
  allEntries(schema).flatMap(({ path }) =>
    path.map((_, i) => path.slice(0, i + 1)).map((part) => [variableName(part), part] as const),
  ),
);

/** Any indices may stand in place of 0, and one more at the end, which is that of a scalar in a list. */
function pathOf(variable: string): readonly string[] | undefined {
  const find = (name: string) => pathsByVariable.get(name.replaceAll(indexPattern, "_0"));
  const [, list = "", last = ""] = /^(.*)_(\d{1,4})$/.exec(variable) ?? [];
  const whole = find(variable);
  const indices = [...variable.matchAll(indexPattern)].map(([, index = ""]) => index);
  const path = (whole ?? find(list))?.map((key) => (key === "0" ? (indices.shift() ?? "0") : key));
  return path === undefined || whole !== undefined ? path : [...path, last];
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
