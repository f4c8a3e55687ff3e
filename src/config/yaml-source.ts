// Parses YAML text into values with their places. All syntax errors are returned. Aliases are followed within bounds, so
// that no document grows far beyond what was written. Messages never quote the text, because it may contain a secret.

import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  type YAMLError,
  type YAMLMap,
} from "yaml";
import {
  type ConfigError,
  joinPath,
  type Origin,
  type Raw,
  type RawEntry,
  type Scalar,
  valueError,
} from "./written.ts";

export interface YamlReading {
  /** Undefined for an empty document, and when the text is not YAML. */
  readonly raw: Raw | undefined;
  readonly errors: ConfigError[];
}

// A whole configuration has fewer than 100 values. The bounds leave room for any list, and none for a bomb.
const maxDepth = 32;

const maxNodes = 20_000;

const maxAliases = 100;

/** `name` is the file as it is shown. What is given `within` a variable or an option stands there, under that path. */
export function readYaml(
  text: string,
  name: string,
  within?: { readonly at: Origin; readonly path: readonly string[] },
): YamlReading {
  const lines = new LineCounter();
  const originAt = (offset: number): Origin => {
    if (within !== undefined) return within.at;
    const { line, col } = lines.linePos(offset);
    return { kind: "file", file: name, line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const path = within?.path ?? [];
  const key = joinPath(path);
  const refuse = (offset: number, message: string): ConfigError => ({
    at: originAt(offset),
    key,
    message,
    about: [key],
  });
  const parsed = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false });
  const documents = "empty" in parsed ? [] : parsed;
  const [document, second] = documents;

  const errors = documents.flatMap(({ errors, warnings }) => firstPerLine([...errors, ...warnings], lines));
  if (errors.length > 0) {
    return { raw: undefined, errors: errors.map((error) => refuse(error.pos[0], `not valid YAML: ${explain(error)}`)) };
  }
  if (second !== undefined) {
    return { raw: undefined, errors: [refuse(second.range[0], "found a second document, expected one")] };
  }
  if (document === undefined || document.contents === null) return { raw: undefined, errors: [] };
  const walk = new YamlWalk(originAt, refuse);
  const raw = walk.read(document.contents, { path }, 0);
  return { raw: walk.isComplete ? raw : undefined, errors: walk.errors };
}

/** A broken line is often reported twice, and the first report is the one that helps. */
function firstPerLine(errors: readonly YAMLError[], lines: LineCounter): YAMLError[] {
  const seen = new Set<number>();
  return errors
    .toSorted((a, b) => a.pos[0] - b.pos[0])
    .filter((error) => {
      const { line } = lines.linePos(error.pos[0]);
      return !seen.has(line) && seen.add(line);
    });
}

/** The parser's words up to where it begins to quote the text. */
function explain(error: YAMLError): string {
  if (error.code === "TAG_RESOLVE_FAILED") return "tags (!name) have no meaning here";
  if (error.code === "BAD_ALIAS") return "an alias that is none";
  if (error.code === "MISSING_CHAR" && error.message.endsWith("quote")) return "a quote that is never closed";
  if (error.code === "KEY_OVER_1024_CHARS") return "a key longer than 1024 characters";
  if (error.code === "BLOCK_AS_IMPLICIT_KEY") return 'a key inside a value; text that holds ": " needs quotes';
  const words = error.message.split(/:|\.|\n/, 1)[0] ?? "";
  return words.charAt(0).toLowerCase() + words.slice(1);
}

class YamlWalk {
  readonly errors: ConfigError[] = [];
  /** False: the target of an alias is not known, or the rest was not read. The keys around it cannot be validated. */
  isComplete = true;
  /** The last node of each anchor so far. */
  readonly #anchored = new Map<string, Node>();
  readonly #originAt: (offset: number) => Origin;
  readonly #refuse: (offset: number, message: string) => ConfigError;
  #nodes = 0;
  #aliases = 0;
  #isExhausted = false;

  constructor(originAt: (offset: number) => Origin, refuse: (offset: number, message: string) => ConfigError) {
    this.#originAt = originAt;
    this.#refuse = refuse;
  }

  /** `offset`: the place of a value that is absent. */
  read(node: Node | null, { path, aliasAt }: Position, offset: number): Raw {
    const start = node?.range?.[0] ?? offset;
    const at = aliasAt ?? this.#originAt(start);
    const nothing: Raw = { kind: "scalar", at, value: null };
    if (node === null || !this.#hasRoomFor(node, path, start)) return nothing;
    if (isAlias(node)) return this.#follow(node, { path, aliasAt: at }, start) ?? nothing;
    if (aliasAt === undefined) this.#remember(node);
    if (isMap(node)) return { kind: "mapping", at, entries: this.#entries(node, { path, aliasAt }, start) };
    if (isSeq(node)) {
      const items = node.items as (Node | null)[];
      return {
        kind: "list",
        at,
        items: items.map((item, i) => this.read(item, { path: [...path, String(i)], aliasAt }, start)),
      };
    }
    if (!isScalar(node)) return nothing;
    if (typeof node.value === "number" && /^[-+]?0[0-9o]/.test(node.source ?? ""))
      this.errors.push(valueError(at, joinPath(path), String(node.source), withoutLeadingZero));
    return { kind: "scalar", at, value: scalarOf(node.value) };
  }

  #entries(map: YAMLMap, { path, aliasAt }: Position, offset: number): RawEntry[] {
    const firstLines = new Map<string, string>();
    return map.items.map((pair) => {
      const keyNode = pair.key as Node | null;
      const keyRange = keyNode?.range ?? [offset, offset];
      const keyAt = aliasAt ?? this.#originAt(keyRange[0]);
      const key = isScalar(keyNode) ? String(keyNode.value) : "?";
      if (keyNode !== null && aliasAt === undefined) this.#remember(keyNode);
      const inside = [...path, key];
      const first = firstLines.get(key);
      if (first === undefined)
        firstLines.set(key, keyAt.kind === "file" ? ` (the first is in line ${keyAt.line})` : "");
      else this.errors.push(valueError(keyAt, joinPath(inside), "a second one", `one${first}`));
      return { key, keyAt, value: this.read(pair.value as Node | null, { path: inside, aliasAt }, keyRange[1]) };
    });
  }

  #remember(node: Node): void {
    if (!isAlias(node) && node.anchor !== undefined) this.#anchored.set(node.anchor, node);
  }

  /** The library's own lookup goes through the whole document for each alias. */
  #follow(alias: Alias, place: Position, offset: number): Raw | undefined {
    const target = this.#anchored.get(alias.source);
    if (target !== undefined) return this.read(target, place, offset);
    this.#stop(offset, "found an alias (*name), expected its anchor (&name) before it");
    return undefined;
  }

  /** Ends an alias that contains itself as well. The rest of such a document is not read. */
  #hasRoomFor(node: Node, path: readonly string[], offset: number): boolean {
    if (this.#isExhausted) return false;
    this.#nodes += 1;
    if (isAlias(node)) this.#aliases += 1;
    const counts = [
      [isAlias(node) ? 0 : path.length, maxDepth, "levels"],
      [this.#nodes, maxNodes, "values"],
      [this.#aliases, maxAliases, "aliases"],
    ] as const;
    const exceeded = counts.find(([count, max]) => count > max);
    if (exceeded === undefined) return true;
    this.#isExhausted = true;
    this.#stop(offset, `found more than ${exceeded[1]} ${exceeded[2]}, expected fewer`);
    return false;
  }

  #stop(offset: number, message: string): void {
    this.isComplete = false;
    this.errors.push(this.#refuse(offset, message));
  }
}

interface Position {
  readonly path: readonly string[];
  /** A value behind an alias is reported at the alias, because the key there is what is wrong. */
  readonly aliasAt?: Origin | undefined;
}

/** So 0100 is a hundred here, and 64 in YAML 1.1, which Helm reads. */
const withoutLeadingZero = "a number without a leading zero, which the versions of YAML read differently";

function scalarOf(value: unknown): Scalar {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" || value === null
    ? value
    : String(value);
}
