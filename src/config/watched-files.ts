// Reads groups of files, and rereads them while the gateway runs. A new version replaces the one in use as a whole. While
// the files are missing or wrong, the last good version stays in use and the error is reported once.
import { asError } from "../core/failure.ts";
import type { FileError, FileGroup, WatchEvents, Watched } from "../core/file-group.ts";
import { readRegularFile } from "./regular-file.ts";

export type FilesRead<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly errors: readonly FileError[] };

/** The files cannot be used at the start. */
export class FilesError extends Error {
  readonly errors: readonly FileError[];

  constructor(errors: readonly FileError[]) {
    super("Files that the configuration names cannot be used.");
    this.errors = errors;
  }
}

/**
 * How often files are reread. Reading sees a file that was written in place, replaced, or swapped with the volume it is
 * mounted from, on any file system; notifications from the kernel miss some of these.
 */
const defaultRereadMs = 1000;

/** All errors, in the order of the group's settings. */
export async function readFiles<T>(group: FileGroup<T>): Promise<FilesRead<T>> {
  return parse(group, await readTexts(group), true);
}

/** Rejects with a FilesError. */
export async function watchFiles<T>(
  group: FileGroup<T>,
  events: WatchEvents<T>,
  rereadMs = defaultRereadMs,
): Promise<Watched<T>> {
  const texts = await readTexts(group);
  const read = parse(group, texts, true);
  if (!read.ok) throw new FilesError(read.errors);
  return new WatchedFiles({ group, events, rereadMs }, texts, read.value);
}

/** By setting; an Error where the file cannot be read. */
type Texts = ReadonlyMap<string, string | Error>;

interface WatchOptions<T> {
  readonly group: FileGroup<T>;
  readonly events: WatchEvents<T>;
  readonly rereadMs: number;
}

class WatchedFiles<T> implements Watched<T> {
  onChange: (value: T) => void = () => {};
  value: T;
  isCurrent = true;
  readonly #options: WatchOptions<T>;
  /** What `value` was made from. */
  #texts: Texts;
  #refused: { readonly texts: Texts; readonly errors: readonly FileError[]; isReported: boolean } | null = null;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: WatchOptions<T>, texts: Texts, value: T) {
    this.#options = options;
    this.#texts = texts;
    this.value = value;
    if (texts.size > 0) this.#rereadLater();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #rereadLater(): void {
    this.#timer = setTimeout(async () => {
      const texts = await readTexts(this.#options.group);
      if (this.#isClosed) return;
      this.#take(texts);
      this.#rereadLater();
    }, this.#options.rereadMs).unref();
  }

  #take(texts: Texts): void {
    if (areSame(texts, this.#texts)) {
      this.#refused = null;
      if (!this.isCurrent) this.#use(this.value);
    } else if (this.#refused !== null && areSame(texts, this.#refused.texts)) {
      this.#reportRefused(this.#refused);
    } else {
      const read = parse(this.#options.group, texts, false);
      this.#refused = read.ok ? null : { texts, errors: read.errors, isReported: false };
      if (!read.ok) return;
      this.#texts = texts;
      this.#use(read.value);
      this.onChange(read.value);
    }
  }

  #use(value: T): void {
    this.value = value;
    this.isCurrent = true;
    this.#options.events.onReload(value);
  }

  /** Files of a group are replaced one after the other, so only what is still wrong at the next reading is an error. */
  #reportRefused(refused: { readonly errors: readonly FileError[]; isReported: boolean }): void {
    if (refused.isReported) return;
    refused.isReported = true;
    this.isCurrent = false;
    this.#options.events.onError(refused.errors);
  }
}

async function readTexts({ paths }: FileGroup<unknown>): Promise<Texts> {
  const texts = new Map<string, string | Error>();
  for (const [key, path] of Object.entries(paths)) {
    if (path !== null) texts.set(key, await readRegularFile(path).catch(asError));
  }
  return texts;
}

function parse<T>({ paths, parse }: FileGroup<T>, texts: Texts, isStart: boolean): FilesRead<T> {
  const fileOf = (key: string): string => paths[key] ?? "";
  const readable = [...texts].filter(([, text]) => typeof text === "string");
  const reading = parse(Object.fromEntries(readable) as Record<string, string>, isStart);
  const errors: FileError[] = [...texts].flatMap(([key, text]) =>
    text instanceof Error ? [{ kind: "unreadable", key, file: fileOf(key), cause: text }] : [],
  );
  if (!reading.ok) {
    errors.push(...reading.flaws.map((flaw) => ({ kind: "invalid" as const, file: fileOf(flaw.key), ...flaw })));
  }
  if (reading.ok && errors.length === 0) return reading;
  const order = Object.keys(paths);
  return { ok: false, errors: errors.toSorted((a, b) => order.indexOf(a.key) - order.indexOf(b.key)) };
}

/** Files that cannot be read are the same, whatever the reason. */
function areSame(a: Texts, b: Texts): boolean {
  const textOf = (texts: Texts, key: string): string | null => {
    const text = texts.get(key);
    return typeof text === "string" ? text : null;
  };
  return [...a.keys()].every((key) => textOf(a, key) === textOf(b, key));
}
