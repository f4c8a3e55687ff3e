// The configuration in force as the admin API shows it: each value, where it was written, and what needs a restart. Secrets
// are masked as `headgate check` masks them.
import type { Config } from "../../admin/control-plane.ts";
import { nodeAt } from "../../config/definition.ts";
import { effective, flow } from "../../config/effective.ts";
import { schema } from "../../config/schema.ts";
import { joinPath, type Origin, type Raw, rawAt } from "../../config/written.ts";
import type { Reloader } from "../reloader.ts";

/** `restart`: keys whose new values need a restart. `tokenNames`: names in `auth.tokensFile`, which are shown. */
export function configAnswer(
  { raw, started }: Reloader["written"],
  restart: readonly string[],
  tokenNames: ReadonlySet<string>,
): Pick<Config, "values" | "origins" | "restart"> {
  if (raw === null)
    return { values: null, origins: [], restart: restart.map((key) => ({ key, inForce: "", wanted: "" })) };
  const values = effective(schema, raw.root, tokenNames) as Record<string, unknown>;
  const needs = restart.map((key) => {
    const path = key.split(".");
    const node = nodeAt(schema, path);
    const shown = (root: Raw | undefined) => (node === undefined ? "" : effective(node, rawAt(root, path), tokenNames));
    const wanted = flow(shown(raw.root));
    if (started === null) return { key, inForce: "", wanted };
    const inForce = shown(started.root);
    put(values, path, inForce);
    return { key, inForce: flow(inForce), wanted };
  });
  return { values, origins: originsOf(raw.root, []), restart: needs };
}

function put(values: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [key = "", ...rest] = path;
  const child = values[key];
  if (rest.length === 0) values[key] = value;
  else if (typeof child === "object" && child !== null) put(child as Record<string, unknown>, rest, value);
}

/** One for each value, or for each list of values. */
function originsOf(raw: Raw | undefined, path: readonly string[]): Config["origins"] {
  if (raw === undefined) return [];
  switch (raw.kind) {
    case "scalar":
      return originOf(raw.at, path);
    case "list": {
      if (raw.items.every(({ kind }) => kind === "scalar")) return originOf(raw.at, path);
      return raw.items.flatMap((item, i) => originsOf(item, [...path, nameOf(item) ?? String(i)]));
    }
    case "mapping":
      return raw.entries.flatMap(({ key, value }) => originsOf(value, [...path, key]));
  }
}

/** A policy stands by its name. */
function nameOf(item: Raw): string | undefined {
  const name = rawAt(item, ["name"]);
  return name?.kind === "scalar" ? String(name.value) : undefined;
}

function originOf(at: Origin, path: readonly string[]): Config["origins"] {
  const key = joinPath(path);
  switch (at.kind) {
    case "file":
      return [{ key, source: "file", place: `${at.file}:${at.line}:${at.column}` }];
    case "environment":
      return [{ key, source: "environment", place: at.variable }];
    case "command line":
      return [{ key, source: "command line", place: at.option }];
    default:
      return [];
  }
}
