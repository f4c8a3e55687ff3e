// Opens the snapshot of the last process at a start. Whatever stands in its place, the start goes on.
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { asError, errorCode, failureCode, ignoreError } from "../../core/failure.ts";
import { readSnapshot, type Snapshot } from "./decoder.ts";
import { removeTemporaryFiles, setAside } from "./snapshot-paths.ts";

export type OpenedSnapshot =
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
    if (opened.kind === "refused") await setAside(path).catch(ignoreError);
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
