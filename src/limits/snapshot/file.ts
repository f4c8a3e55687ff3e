// The file of a snapshot, written in one move: a reader finds the old one or the new one, whole. Synchronous,
// because it runs in a thread of its own.

import { randomBytes } from "node:crypto";
import { closeSync, constants, fsyncSync, openSync, renameSync, writeSync } from "node:fs";
import { access, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { asError, errorCode, failureCode, ignoreError } from "../../core/failure.ts";
import { readSnapshot, type Snapshot } from "./format.ts";

/** It contains addresses of clients, and the secrets by which keys are hashed. */
const ownerOnly = 0o600;

export class SnapshotFile {
  readonly #path: string;
  readonly #temporary: string;
  readonly #fd: number;
  #bytes = 0;

  /** Throws the system's error. */
  constructor(path: string, temporary: string) {
    this.#path = path;
    this.#temporary = temporary;
    this.#fd = openSync(temporary, "wx", ownerOnly);
  }

  get bytes(): number {
    return this.#bytes;
  }

  write(bytes: Buffer): void {
    for (let written = 0; written < bytes.length; ) written += writeSync(this.#fd, bytes, written);
    this.#bytes += bytes.length;
  }

  /** Replaces the previous file. The new one stays even if the machine fails right after. */
  finish(): void {
    fsyncSync(this.#fd);
    closeSync(this.#fd);
    renameSync(this.#temporary, this.#path);
    const folder = openSync(dirname(this.#path), "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  }
}

// The files beside a snapshot: the temporary one that becomes it, and the one that was refused at a start.

/** Another one for each snapshot, so that two processes with one path never write the same file. */
export function temporaryPath(path: string): string {
  return join(dirname(path), `.${basename(path)}.${randomBytes(8).toString("hex")}.tmp`);
}

/**
 * Removes what processes left that were killed while they wrote. One that still writes fails, and writes again later.
 * Rejects with the system's error.
 */
async function removeTemporaryFiles(path: string): Promise<void> {
  const begin = `.${basename(path)}.`;
  const isTemporary = (name: string): boolean =>
    name.startsWith(begin) && /^[0-9a-f]{16}\.tmp$/.test(name.slice(begin.length));
  const names = await readdir(dirname(path));
  for (const name of names.filter(isTemporary)) await rm(join(dirname(path), name), { force: true });
}

/** Returns why no snapshot can be written to the path now; null if one can. */
export async function flawOfPath(path: string): Promise<string | null> {
  const folder = dirname(path);
  try {
    if (await isFolder(path)) return `${path} is a folder`;
    if (!(await isFolder(folder))) return `there is no folder ${folder}`;
    await access(folder, constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return `the folder ${folder} cannot be written to (${failureCode(asError(error))})`;
  }
}

/** Differs from one file at the path to the next; null if there is none, or if it cannot be seen. */
export async function fileIdentity(path: string): Promise<string | null> {
  const seen = await stat(path).catch(() => null);
  return seen === null ? null : `${seen.dev} ${seen.ino} ${seen.mtimeMs}`;
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
    throw error;
  }
}

// Opens the snapshot of the last process at a start. Whatever stands in its place, the start goes on.

type OpenedSnapshot =
  | { readonly kind: "none" }
  /** `reason`: follows "the snapshot". */
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "read"; readonly snapshot: Snapshot; close(): Promise<void> };

/** Without O_NONBLOCK, opening a pipe waits for a writer. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK;

/**
 * Also removes temporary files of processes that were killed. A refused file gets another name. Where neither is
 * permitted, no snapshot can be written either, and that is reported.
 */
export async function openSnapshot(path: string): Promise<OpenedSnapshot> {
  await removeTemporaryFiles(path).catch(ignoreError);
  try {
    const opened = await read(path);
    // A refused file can be examined, until another one is refused.
    if (opened.kind === "refused") await rename(path, `${path}.refused`).catch(ignoreError);
    return opened;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return { kind: "none" };
    return { kind: "refused", reason: `cannot be read: ${failureCode(asError(error))}` };
  }
}

async function read(path: string): Promise<OpenedSnapshot> {
  const file = await open(path, flags);
  const close = (): Promise<void> => file.close();
  try {
    if (!(await file.stat()).isFile()) throw new NotFileError();
    const reading = await readSnapshot(async (target, position) => {
      const { bytesRead } = await file.read(target, 0, target.length, position);
      return bytesRead;
    });
    if (reading.ok) return { kind: "read", snapshot: reading.snapshot, close };
    await close();
    return { kind: "refused", reason: reading.reason };
  } catch (error) {
    await close();
    throw error;
  }
}

class NotFileError extends Error {
  readonly code = "ENOTREGULAR";
}
