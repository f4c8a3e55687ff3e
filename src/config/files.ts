// Reads groups of files, and rereads them while the gateway runs. A new version is taken when its files have not changed for
// a moment, and replaces the one in use as a whole. While the files are missing or wrong, the last good version stays in use
// and the error is reported once. Only regular files are read: a pipe or a terminal could wait forever, a device may never
// end, and a file may be too large for the memory of the process.

import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from "node:fs";
import { open } from "node:fs/promises";
import { asError, explainError, ignoreError } from "../core/failure.ts";
import type { FileError, FileGroup, Files, WatchEvents, Watched } from "../core/file-group.ts";

/** Several hundred thousand tokens. */
const maxMebibytes = 64;

/** Without O_NONBLOCK, opening a pipe waits for a writer. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK;

/** Rejects with an error whose code is ENOTREGULAR or EFBIG, or with that of the system. */
export async function readRegularFile(path: string): Promise<string> {
  const file = await open(path, flags);
  try {
    refuseOthers(await file.stat());
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

/** For the start, when there is nothing else to do. */
export function readRegularFileSync(path: string): Buffer {
  const fd = openSync(path, flags);
  try {
    refuseOthers(fstatSync(fd));
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** A folder is not refused here, because reading it fails with a better message. */
function refuseOthers(kind: Stats): void {
  if (!kind.isFile() && !kind.isDirectory()) {
    throw Object.assign(new Error("It is no regular file."), { code: "ENOTREGULAR" });
  }
  if (kind.size > maxMebibytes * 1024 * 1024) {
    throw Object.assign(new Error("It is too large."), { code: "EFBIG" });
  }
}

/** Explains to an operator why a file cannot be read. */
export function explainReadFailure(cause: unknown): string {
  return explainError(cause, readFailures);
}

const readFailures: ReadonlyMap<string, string> = new Map([
  ["ENOENT", "no such file"],
  ["EISDIR", "it is a folder"],
  ["ENOTREGULAR", "it is no regular file"],
  ["EFBIG", `it is larger than ${maxMebibytes} MiB`],
  ["EACCES", "permission denied"],
  ["EPERM", "permission denied"],
]);

type FilesRead<T> =
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
type Texts = ReadonlyMap<string, string | Error>;

/** All errors, in the order of the group's settings. */
export async function readFiles<T>(group: FileGroup<T>): Promise<FilesRead<T>> {
  return parseFiles(group, await readTexts(pathsOf(group)), true);
}

async function readTexts(paths: readonly string[]): Promise<Texts> {
  const texts = new Map<string, string | Error>();
  for (const path of new Set(paths)) texts.set(path, await readRegularFile(path).catch(asError));
  return texts;
}

function parseFiles<T>(group: FileGroup<T>, texts: Texts, isStart: boolean): FilesRead<T> {
  const found = filesOf(group).map(([key, file]) => ({ key, file, text: texts.get(file) }));
  const readable = found.flatMap(({ key, text }) => (typeof text === "string" ? [[key, text] as const] : []));
  const reading = group.parse(Object.fromEntries(readable), isStart);
  const errors: FileError[] = found.flatMap(({ key, file, text: cause }) =>
    cause instanceof Error ? [{ kind: "unreadable", key, file, cause }] : [],
  );
  for (const flaw of reading.ok ? [] : reading.flaws) {
    errors.push({ kind: "invalid", file: group.paths[flaw.key] ?? "", ...flaw });
  }
  if (reading.ok && errors.length === 0) return reading;
  const order = Object.keys(group.paths);
  return { ok: false, errors: errors.toSorted((a, b) => order.indexOf(a.key) - order.indexOf(b.key)) };
}

/** The settings that name a file, each with its path. */
function filesOf({ paths }: FileGroup<unknown>): [setting: string, path: string][] {
  return Object.entries(paths).flatMap(([key, path]) => (path === null ? [] : [[key, path]]));
}

function keysOf(group: FileGroup<unknown>): string[] {
  return filesOf(group).map(([key]) => key);
}

function pathsOf(group: FileGroup<unknown>): string[] {
  return filesOf(group).map(([, path]) => path);
}

function areSame(paths: readonly string[], a: Texts, b: Texts): boolean {
  return paths.every((path) => isSame(a.get(path), b.get(path)));
}

/** Files that cannot be read are the same, whatever the reason. */
function isSame(a: string | Error | undefined, b: string | Error | undefined): boolean {
  return a === b || (a instanceof Error && b instanceof Error);
}

/**
 * How often files are reread. Reading sees a file that was written in place, replaced, or swapped with the volume it is
 * mounted from, on any file system; notifications from the kernel miss some of these.
 */
const defaultRereadMs = 1000;

/** The settings whose files have changed since the last call. */
export interface FileChanges {
  /** In use from now on. */
  readonly taken: readonly string[];
  /** Missing or wrong, so the last good version stays in use. */
  readonly refused: readonly string[];
}

/** The contents of files in use, by the setting and the path of each; see `contentKeys`. */
export type FileContents = ReadonlyMap<string, string>;

/** The keys of a group's files in FileContents, in the order of its settings. */
export function contentKeys(group: FileGroup<unknown>): string[] {
  return filesOf(group).map(([setting, path]) => `${setting} ${path}`);
}

/** Versions that are ready to be taken. */
export interface Offer {
  /** Of all files as they are when the offer is taken. */
  readonly contents: FileContents;
  /** Whether anything changes then. */
  readonly hasNews: boolean;
  /** By group. */
  readonly versions: ReadonlyMap<unknown, unknown>;
}

/** Watches all groups, with one timer. */
export class FileWatcher implements Files {
  /**
   * Called when new versions are ready, or files have become missing or wrong. The new versions are in use when `take`
   * is called.
   */
  onChange: () => void = () => this.take();
  readonly #rereadMs: number;
  /** Those of `open`, and those of `openFile`. */
  readonly #groups = new Set<Group>();
  readonly #single = new Set<Group>();
  /** What the last reading found. */
  #seen: Texts = new Map();
  /** A change was left for the next reading, because other files had just changed. */
  #hasWaited = false;
  #timer: NodeJS.Timeout | undefined;
  /** One reading after the other, so that an older content never follows a newer one. */
  #reading: Promise<unknown> = Promise.resolve();

  constructor(rereadMs = defaultRereadMs) {
    this.#rereadMs = rereadMs;
  }

  /** Rejects with a FilesError. */
  async open<T>(group: FileGroup<T>, events: WatchEvents<T>): Promise<Watched<T>> {
    return this.#alone(async () => {
      const texts = await readTexts(pathsOf(group));
      const read = parseFiles(group, texts, true);
      if (!read.ok) throw new FilesError(read.errors);
      return this.#add({ group, events }, texts, read.value, this.#groups);
    });
  }

  /**
   * Watches a file that the caller reads itself; `take` leaves it out, and it may be missing. `known`: the error that the
   * caller got, or "changed" if it has read other contents than there are now.
   */
  async openFile(path: string, known: Error | "changed" | null = null): Promise<WatchedFile> {
    const group: FileGroup<null> = { paths: { file: path }, parse: () => ({ ok: true, value: null }) };
    const file = await this.#alone(async () => {
      const texts = known === null ? await readTexts([path]) : new Map([[path, known]]);
      return this.#add({ group, events: noEvents }, texts, null, this.#single);
    });
    return {
      takeChange: () => [file.take(), file.takeRefused()].some((keys) => keys.length > 0),
      close: () => file.close(),
    };
  }

  /** Rereads all files now, without waiting until they stay the same. */
  reread(): Promise<void> {
    return this.#alone(async () => {
      this.#seen = await readTexts(this.#paths());
      for (const files of this.#all) files.look(this.#seen, true);
    });
  }

  /** Puts the new versions into use, all in one turn: those of the offer, if there is one. */
  take(offer: Offer | null = null): FileChanges {
    const groups = [...this.#groups];
    const taken = groups.flatMap((files) => (offer === null || offer.versions.has(files) ? files.take(offer) : []));
    return { taken, refused: groups.flatMap((files) => files.takeRefused()) };
  }

  /** The contents in use. */
  contents(): FileContents {
    return new Map([...this.#groups].flatMap((files) => files.contents(false)));
  }

  /** Returns what `take` would put into use now. Others that share the files can so be given the same versions. */
  offer(): Offer {
    const groups = [...this.#groups];
    const versions = new Map(groups.map((files) => [files, files.next]));
    const contents = new Map(groups.flatMap((files) => files.contents(true)));
    return { contents, versions, hasNews: [...versions.values()].some((next) => next !== null) };
  }

  get #all(): readonly Group[] {
    return [...this.#groups, ...this.#single];
  }

  #add<T>(options: Omit<WatchOptions<T>, "onClose">, texts: Texts, value: T, among: Set<Group>): WatchedFiles<T> {
    const files: WatchedFiles<T> = new WatchedFiles({ ...options, onClose: () => among.delete(files) }, texts, value);
    if (texts.size > 0) among.add(files);
    this.#rereadLater();
    return files;
  }

  #paths(): string[] {
    return this.#all.flatMap(({ paths }) => paths);
  }

  async #alone<T>(read: () => Promise<T>): Promise<T> {
    const reading = this.#reading.then(read);
    this.#reading = reading.catch(ignoreError);
    return reading;
  }

  /** Without files, the timer ends. */
  #rereadLater(): void {
    if (this.#all.length === 0) return;
    this.#timer ??= setTimeout(async () => {
      await this.#alone(() => this.#lookForChanges());
      this.#timer = undefined;
      this.#rereadLater();
    }, this.#rereadMs).unref();
  }

  async #lookForChanges(): Promise<void> {
    const before = this.#seen;
    this.#seen = await readTexts(this.#paths());
    const isStable = (path: string): boolean => isSame(before.get(path), this.#seen.get(path));
    const stable = this.#all.filter(({ paths }) => paths.every(isStable));
    // Files that are changed one after the other are taken together. A file that keeps changing delays the others by
    // one reading.
    const isNews = stable.some((files) => files.isNews(this.#seen));
    this.#hasWaited = isNews && !this.#hasWaited && !this.#paths().every(isStable);
    if (this.#hasWaited) return;
    if (stable.map((files) => files.look(this.#seen)).includes(true)) this.onChange();
  }
}

export interface WatchedFile {
  /** Returns whether the file has changed, or has become unreadable, since the last call. */
  takeChange(): boolean;
  close(): void;
}

const noEvents = { onReload: () => {}, onError: () => {} };

type Group = Pick<WatchedFiles<unknown>, "paths" | "next" | "contents" | "isNews" | "look" | "take" | "takeRefused">;

interface WatchOptions<T> {
  readonly group: FileGroup<T>;
  readonly events: WatchEvents<T>;
  readonly onClose: () => void;
}

class WatchedFiles<T> implements Watched<T> {
  onChange: (value: T) => void = () => {};
  value: T;
  isCurrent = true;
  readonly paths: readonly string[];
  readonly contentKeys: readonly string[];
  readonly #options: WatchOptions<T>;
  /** What `value` was made from. */
  #texts: Texts;
  /** The version that `take` puts into use. */
  next: { readonly texts: Texts; readonly value: T } | null = null;
  #refused: { readonly texts: Texts; isNew: boolean } | null = null;

  constructor(options: WatchOptions<T>, texts: Texts, value: T) {
    this.#options = options;
    this.paths = pathsOf(options.group);
    this.contentKeys = contentKeys(options.group);
    this.#texts = texts;
    this.value = value;
  }

  close(): void {
    this.#options.onClose();
  }

  /** Returns whether the texts are those of a new version, or of a new error. */
  isNews(texts: Texts): boolean {
    const known = this.#refused === null ? this.#texts : this.#refused.texts;
    return this.paths.every((path) => texts.has(path)) && !areSame(this.paths, texts, known);
  }

  /** Returns whether there is a new version to take, or a new error. `isAsked`: an old error is reported again. */
  look(texts: Texts, isAsked = false): boolean {
    // It was opened while the files were read.
    if (!this.paths.every((path) => texts.has(path))) return false;
    if (areSame(this.paths, texts, this.#texts)) {
      this.#refused = null;
      this.next = this.isCurrent ? null : { texts, value: this.value };
      return this.next !== null;
    }
    // This version is offered already. It is reported again until it is taken.
    if (this.next !== null && areSame(this.paths, texts, this.next.texts)) return true;
    if (!isAsked && this.#refused !== null && areSame(this.paths, texts, this.#refused.texts)) return false;
    const read = parseFiles(this.#options.group, texts, false);
    this.next = read.ok ? { texts, value: read.value } : null;
    this.#refused = read.ok ? null : { texts, isNew: true };
    if (!read.ok) {
      this.isCurrent = false;
      this.#options.events.onError(read.errors);
    }
    return true;
  }

  /** Returns the settings that name the files, if there was a new version. */
  take(offer: Offer | null = null): string[] {
    const taken = offer === null ? this.next : (offer.versions.get(this) as typeof this.next);
    if (taken === null) return [];
    const { texts, value } = taken;
    const isOther = value !== this.value;
    // A version that was read after the offer waits for the next one.
    if (this.next === taken) this.next = null;
    this.#texts = texts;
    this.value = value;
    this.isCurrent = this.#refused === null;
    this.#options.events.onReload(value);
    if (isOther) this.onChange(value);
    return keysOf(this.#options.group);
  }

  /** The contents of the version in use, or of the one that `take` puts into use. */
  contents(isTaken: boolean): [key: string, text: string][] {
    const texts = (isTaken ? this.next?.texts : null) ?? this.#texts;
    return this.paths.flatMap((path, i) => {
      const text = texts.get(path);
      return typeof text === "string" ? [[this.contentKeys[i] ?? "", text]] : [];
    });
  }

  /** Returns the settings that name the files, if they have become wrong since the last call. */
  takeRefused(): string[] {
    if (this.#refused?.isNew !== true) return [];
    this.#refused.isNew = false;
    return keysOf(this.#options.group);
  }
}
