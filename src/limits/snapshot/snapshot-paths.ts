// The files beside a snapshot: the temporary one that becomes it, and the one that was refused at a start.
import { randomBytes } from "node:crypto";
import { access, constants, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { asError, errorCode, failureCode } from "../../core/failure.ts";

/** Another one for each snapshot, so that two processes with one path never write the same file. */
export function temporaryPath(path: string): string {
  return join(dirname(path), `.${basename(path)}.${randomBytes(8).toString("hex")}.tmp`);
}

/**
 * Removes what processes left that were killed while they wrote. One that still writes fails, and writes again later.
 * Rejects with the system's error.
 */
export async function removeTemporaryFiles(path: string): Promise<void> {
  const begin = `.${basename(path)}.`;
  const isTemporary = (name: string): boolean =>
    name.startsWith(begin) && /^[0-9a-f]{16}\.tmp$/.test(name.slice(begin.length));
  const names = await readdir(dirname(path));
  for (const name of names.filter(isTemporary)) await rm(join(dirname(path), name), { force: true });
}

/** Renames a refused file, so that it can be looked into. Replaces the one before. */
export async function setAside(path: string): Promise<void> {
  await rename(path, `${path}.refused`);
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
