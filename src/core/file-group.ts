// Files that the gateway reads at the start and again when they change. Each user of such files defines how to parse
// them; config/files.ts reads and watches them.

/** Files that are used together, such as a certificate and its key. */
export interface FileGroup<T> {
  /** Absolute paths by the settings that name them; null if a setting names none. */
  readonly paths: Readonly<Record<string, string | null>>;
  /** Parses the texts of the readable files, by the same settings. `isStart`: no version is in use yet. */
  readonly parse: (texts: Readonly<Record<string, string | undefined>>, isStart: boolean) => FilesReading<T>;
}

type FilesReading<T> =
  | { readonly ok: true; readonly value: T }
  /** `flaws` is empty if the only error is a missing file. */
  | { readonly ok: false; readonly flaws: readonly FileFlaw[] };

/** Quotes nothing from the file, which may contain a secret. */
export interface FileFlaw {
  /** The setting that names the file. */
  readonly key: string;
  /** From 1. */
  readonly line?: number;
  readonly found: string;
  readonly expected: string;
}

/** A flaw in one line of a file; who reads the file knows which setting names it. */
export interface LineFlaw {
  /** From 1. */
  readonly line: number;
  readonly found: string;
  readonly expected: string;
}

/** `file` is an absolute path. */
export type FileError = { readonly file: string } & (
  | { readonly kind: "unreadable"; readonly key: string; readonly cause: Error }
  | ({ readonly kind: "invalid" } & FileFlaw)
);

export interface WatchEvents<T> {
  /** A new version is in use, or the files again match the version in use. */
  readonly onReload: (value: T) => void;
  /** The files are wrong, so an earlier version stays in use. */
  readonly onError: (errors: readonly FileError[]) => void;
}

/** What opens groups of files, and keeps their contents up to date. */
export interface Files {
  /** Rejects with a FilesError. */
  open<T>(group: FileGroup<T>, events: WatchEvents<T>): Promise<Watched<T>>;
}

/** The version of a group of files that is in use. */
export interface Watched<T> {
  readonly value: T;
  /** False while the files are missing or wrong, and an earlier value stays in use. */
  readonly isCurrent: boolean;
  /** Called with each new value. */
  onChange: (value: T) => void;
  close(): void;
}

/**
 * The text of a file with a password. Editors and `echo` end a line with a line break, which belongs to no password.
 * Null if there is none, or more than one line.
 */
export function passwordIn(text: string): string | null {
  const line = text.replace(/^\uFEFF/, "").replace(/(\r?\n)+$/, "");
  return line.trim() === "" || /[\r\n]/.test(line) ? null : line;
}
