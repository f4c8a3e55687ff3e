// Files that the gateway reads at the start and again when they change. A part says what its files must hold; what reads
// and watches them is in config/watched-files.ts.

/** Files that are used together, such as a certificate and its key. */
export interface FileGroup<T> {
  /** Absolute paths, by the setting that names each; null where none is named. */
  readonly paths: Readonly<Record<string, string | null>>;
  /** Gets the texts of the files that could be read, by the same settings. `isStart`: nothing is in use yet. */
  readonly parse: (texts: Readonly<Record<string, string | undefined>>, isStart: boolean) => FilesReading<T>;
}

export type FilesReading<T> =
  | { readonly ok: true; readonly value: T }
  /** `flaws` is empty if nothing is wrong but a file that is missing. */
  | { readonly ok: false; readonly flaws: readonly FileFlaw[] };

/** Quotes nothing from the file, which may be a secret. */
export interface FileFlaw {
  /** The setting that names the file. */
  readonly key: string;
  /** From 1. */
  readonly line?: number;
  readonly found: string;
  readonly expected: string;
}

/** `file` is an absolute path. */
export type FileError = { readonly file: string } & (
  | { readonly kind: "unreadable"; readonly key: string; readonly cause: Error }
  | ({ readonly kind: "invalid" } & FileFlaw)
);

export interface WatchEvents<T> {
  /** A new version is in use, or the files are again what is in use. */
  readonly onReload: (value: T) => void;
  /** The version in use is an earlier one. */
  readonly onError: (errors: readonly FileError[]) => void;
}

/** What was read from a group of files and is in use. */
export interface Watched<T> {
  readonly value: T;
  /** False while the files are missing or wrong, and an earlier value stays in use. */
  readonly isCurrent: boolean;
  /** Called with each new value. */
  onChange: (value: T) => void;
  close(): void;
}
