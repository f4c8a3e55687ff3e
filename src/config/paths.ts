// Paths of keys, such as `policies.0.limit`: parsing, rendering, lookup in the definition, and suggestions.
import { type ConfigError, didYouMean, enumerate, type Origin } from "./config-error.ts";
import { isKnown, type Keys, type Leaf, type List, type Node, type Section } from "./definition.ts";
import { suggestions } from "./nearest.ts";
import { schema } from "./schema.ts";

/** `policies[0].limit` is `policies.0.limit`. */
export function splitPath(text: string): string[] {
  return text.replaceAll(/\[(\d+)\]/g, ".$1").split(".");
}

/** Quotes a key that contains other characters than those of known keys, and shortens a long one. */
export function joinPath(path: readonly string[]): string {
  return path.map((key) => (/^[\w-]{1,60}$/.test(key) ? key : JSON.stringify(key.slice(0, 60)))).join(".");
}

export function childOf(node: Node, key: string): Node | undefined {
  switch (node.kind) {
    case "section":
      return isKnown(node, key) ? node.keys[key] : undefined;
    case "list":
      return /^(0|[1-9]\d{0,3})$/.test(key) ? node.item : undefined;
    case "leaf":
      return undefined;
  }
}

export function nodeAt(path: readonly string[], root: Node = schema): Node | undefined {
  return path.reduce<Node | undefined>((node, key) => (node === undefined ? node : childOf(node, key)), root);
}

export interface Entry {
  readonly path: readonly string[];
  readonly node: Leaf<unknown> | List<Leaf<unknown>>;
}

/** Every key that has a value, in the order of the definition. A list of sections is represented by its first item. */
export function allEntries(node: Node = schema, path: readonly string[] = []): Entry[] {
  switch (node.kind) {
    case "leaf":
      return [{ path, node }];
    case "list":
      return isListOfLeaves(node) ? [{ path, node }] : allEntries(node.item, [...path, "0"]);
    case "section":
      return Object.entries(node.keys).flatMap(([key, child]) => allEntries(child, [...path, key]));
  }
}

export function isListOfLeaves(list: List<Leaf<unknown> | Section<Keys>>): list is List<Leaf<unknown>> {
  return list.item.kind === "leaf";
}

/** `meantPath`: what was meant, if it is known. */
export function unknownKey(
  at: Origin,
  path: readonly string[],
  meantPath: readonly string[] | undefined = undefined,
  root: Node = schema,
): ConfigError {
  const known = path.findIndex((_, i) => nodeAt(path.slice(0, i + 1), root) === undefined);
  const parent = nodeAt(path.slice(0, known), root);
  const instead = wordsFor(parent, path[known] ?? "")?.instead;
  const keys = parent?.kind === "section" ? Object.keys(parent.keys) : [];
  const meant = meantPath === undefined ? suggestPaths(path, known, keys, root) : [joinPath(meantPath)];
  const expected = parent?.kind === "list" ? "an index" : parent?.kind === "section" ? enumerate(keys) : "none";
  return {
    at,
    key: joinPath(path),
    message: `unknown key; ${instead ?? didYouMean(meant, `expected ${expected}`)}`,
    about: meant,
  };
}

/**
 * What was probably meant by a path whose part at `known` is unknown: a similar key of the same section, or the same key in
 * another section.
 */
function suggestPaths(path: readonly string[], known: number, keys: readonly string[], root: Node): string[] {
  const before = path.slice(0, known);
  const [key = "", ...after] = path.slice(known);
  const siblings = wordsFor(nodeAt(before, root), key)?.meant ?? suggestions(key, keys);
  if (siblings.length > 0) {
    return siblings.map((sibling) => {
      const corrected = [...before, ...sibling.split("."), ...after];
      return joinPath(nodeAt(corrected, root) === undefined ? [...before, ...sibling.split(".")] : corrected);
    });
  }
  const last = path.at(-1)?.toLowerCase();
  const namesakes = allEntries(root).filter((entry) => entry.path.at(-1)?.toLowerCase() === last);
  const below = namesakes.find((entry) => before.every((key, i) => entry.path[i] === key));
  // If several other sections have the key, none is suggested, because it would be a guess.
  const meant = below ?? (namesakes.length === 1 ? namesakes[0] : undefined);
  return meant === undefined ? [] : [joinPath(meant.path)];
}

function wordsFor(section: Node | undefined, key: string) {
  const fold = (word: string): string => word.toLowerCase().replaceAll(/[_-]/g, "");
  const known = section?.kind === "section" ? (section.wordsOfOthers ?? []) : [];
  return known.find(({ words }) => words.split(" ").map(fold).includes(fold(key)));
}
