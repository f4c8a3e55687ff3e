// Reads groups of files: all their texts, then what they mean together. Returns the value, or all errors.
import { asError } from "../core/failure.ts";
import type { FileError, FileGroup } from "../core/file-group.ts";
import { readRegularFile } from "./regular-file.ts";

export type FilesRead<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly errors: readonly FileError[] };

/** The files cannot be used at the start, or by a reload that names them. */
export class FilesError extends Error {
  readonly errors: readonly FileError[];

  constructor(errors: readonly FileError[]) {
    super("Files that the configuration names cannot be used.");
    this.errors = errors;
  }
}

/** By path; an Error where the file cannot be read. */
export type Texts = ReadonlyMap<string, string | Error>;

/** All errors, in the order of the group's settings. */
export async function readFiles<T>(group: FileGroup<T>): Promise<FilesRead<T>> {
  return parseFiles(group, await readTexts(pathsOf(group)), true);
}

export async function readTexts(paths: readonly string[]): Promise<Texts> {
  const texts = new Map<string, string | Error>();
  for (const path of new Set(paths)) texts.set(path, await readRegularFile(path).catch(asError));
  return texts;
}

export function parseFiles<T>({ paths, parse }: FileGroup<T>, texts: Texts, isStart: boolean): FilesRead<T> {
  const named = Object.entries(paths).flatMap(([key, path]) => (path === null ? [] : [{ key, file: path }]));
  const fileOf = (key: string): string => paths[key] ?? "";
  const readable = named.map(({ key, file }) => [key, texts.get(file)] as const).filter(isReadable);
  const reading = parse(Object.fromEntries(readable), isStart);
  const errors: FileError[] = named.flatMap(({ key, file }) => {
    const cause = texts.get(file);
    return cause instanceof Error ? [{ kind: "unreadable", key, file, cause }] : [];
  });
  if (!reading.ok) {
    errors.push(...reading.flaws.map((flaw) => ({ kind: "invalid" as const, file: fileOf(flaw.key), ...flaw })));
  }
  if (reading.ok && errors.length === 0) return reading;
  const order = Object.keys(paths);
  return { ok: false, errors: errors.toSorted((a, b) => order.indexOf(a.key) - order.indexOf(b.key)) };
}

function isReadable(entry: readonly [string, string | Error | undefined]): entry is readonly [string, string] {
  return typeof entry[1] === "string";
}

export function keysOf({ paths }: FileGroup<unknown>): string[] {
  return Object.keys(paths).filter((key) => paths[key] !== null);
}

export function pathsOf({ paths }: FileGroup<unknown>): string[] {
  return Object.values(paths).filter((path) => path !== null);
}

export function areSame(paths: readonly string[], a: Texts, b: Texts): boolean {
  return paths.every((path) => isSame(a.get(path), b.get(path)));
}

/** Files that cannot be read are the same, whatever the reason. */
export function isSame(a: string | Error | undefined, b: string | Error | undefined): boolean {
  return a === b || (a instanceof Error && b instanceof Error);
}
