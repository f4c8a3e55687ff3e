// Reads regular files only. Reading a pipe or a terminal could wait forever, and a device may never end, so they are
// refused. So is a file that would take the memory of the process: watched files are reread while it runs. The gateway
// reads all its files in this way.
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from "node:fs";
import { open } from "node:fs/promises";
import { errorCode } from "../core/failure.ts";

export class NotRegularFileError extends Error {
  readonly code = "ENOTREGULAR";

  constructor() {
    super("It is no regular file.");
  }
}

export class FileTooLargeError extends Error {
  readonly code = "EFBIG";

  constructor() {
    super("It is too large.");
  }
}

/** Several hundred thousand tokens. */
const maxMebibytes = 64;

/** Without O_NONBLOCK, opening a pipe waits for a writer. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK;

/** Rejects with NotRegularFileError, with FileTooLargeError or with the system's error. */
export async function readRegularFile(path: string): Promise<string> {
  const file = await open(path, flags);
  try {
    refuseOthers(await file.stat());
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

/** For the start, when nothing else can be done meanwhile. */
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
  if (!kind.isFile() && !kind.isDirectory()) throw new NotRegularFileError();
  if (kind.size > maxMebibytes * 1024 * 1024) throw new FileTooLargeError();
}

/** Explains to an operator why a file cannot be read. */
export function explainReadFailure(cause: unknown): string {
  const code = errorCode(cause);
  switch (code) {
    case "ENOENT":
      return "no such file";
    case "EISDIR":
      return "it is a folder";
    case "ENOTREGULAR":
      return "it is no regular file";
    case "EFBIG":
      return `it is larger than ${maxMebibytes} MiB`;
    case "EACCES":
    case "EPERM":
      return "permission denied";
    default:
      return code ?? String(cause);
  }
}
