// The files of a thread that carries traffic. The main thread reads, judges and watches the files, and gives each thread
// their contents, so that all threads have the same ones.
import { contentKeys, type FileChanges, type FileContents } from "../../config/files.ts";
import type { FileGroup, Files, WatchEvents, Watched } from "../../core/file-group.ts";

export class GivenFiles implements Files {
  readonly #groups = new Set<GivenGroup<unknown>>();
  #contents: FileContents;
  #offered: FileContents | null = null;

  constructor(contents: FileContents) {
    this.#contents = contents;
  }

  /** The events are those of the main thread. */
  async open<T>(group: FileGroup<T>, _events: WatchEvents<T>): Promise<Watched<T>> {
    const contents = this.#offered ?? this.#contents;
    const watched = new GivenGroup<T>(group, contents, this);
    this.#groups.add(watched as GivenGroup<unknown>);
    return watched;
  }

  /** Parses other contents, which are not in use before `take`. Throws if they cannot be used. */
  offer(contents: FileContents): void {
    this.#offered = contents;
    for (const group of this.#groups) group.offer(contents);
  }

  take(): FileChanges {
    this.#contents = this.#offered ?? this.#contents;
    this.#offered = null;
    for (const group of this.#groups) group.take();
    return { taken: [], refused: [] };
  }

  drop(): void {
    this.#offered = null;
    for (const group of this.#groups) group.drop();
  }

  close(group: GivenGroup<unknown>): void {
    this.#groups.delete(group);
  }
}

class GivenGroup<T> implements Watched<T> {
  onChange: (value: T) => void = () => {};
  value: T;
  /** The main thread knows better. */
  readonly isCurrent = true;
  readonly #group: FileGroup<T>;
  readonly #keys: readonly string[];
  readonly #files: GivenFiles;
  #contents: FileContents;
  #next: { readonly contents: FileContents; readonly value: T } | null = null;

  constructor(group: FileGroup<T>, contents: FileContents, files: GivenFiles) {
    this.#group = group;
    this.#keys = contentKeys(group);
    this.#contents = contents;
    this.#files = files;
    this.value = this.#parse(contents, true);
  }

  close(): void {
    this.#files.close(this as GivenGroup<unknown>);
  }

  offer(contents: FileContents): void {
    const isSame = this.#keys.every((key) => contents.get(key) === this.#contents.get(key));
    this.#next = isSame ? null : { contents, value: this.#parse(contents, false) };
  }

  take(): void {
    if (this.#next === null) return;
    const { contents, value } = this.#next;
    this.#next = null;
    this.#contents = contents;
    this.value = value;
    this.onChange(value);
  }

  drop(): void {
    this.#next = null;
  }

  #parse(contents: FileContents, isStart: boolean): T {
    const settings = Object.keys(this.#group.paths).filter((setting) => this.#group.paths[setting] !== null);
    const texts = settings.map((setting, i) => [setting, contents.get(this.#keys[i] ?? "")] as const);
    const read = this.#group.parse(Object.fromEntries(texts.filter(([, text]) => text !== undefined)), isStart);
    if (!read.ok) throw new Error(`the files of ${settings.join(", ")} cannot be used in this thread`);
    return read.value;
  }
}
