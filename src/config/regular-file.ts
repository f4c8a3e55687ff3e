// Reads a file that is one. A pipe or a terminal would be waited for without end, and a device never ends: they are
// refused, whatever they would have said. Everything that the gateway reads, it reads in this way.
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from "node:fs";
import { open } from "node:fs/promises";

export class NoRegularFile extends Error {
  readonly code = "ENOTREGULAR";

  constructor() {
    super("It is no regular file.");
  }
}

/** Without O_NONBLOCK opening a pipe already waits for somebody to write to it. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK;

/** Rejects with a NoRegularFile, or with what the system says. */
export async function readRegularFile(path: string): Promise<string> {
  const file = await open(path, flags);
  try {
    refuseOthers(await file.stat());
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

/** For what is read before anything else can go on. */
export function readRegularFileSync(path: string): Buffer {
  const fd = openSync(path, flags);
  try {
    refuseOthers(fstatSync(fd));
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Reading a folder fails by itself, with the better word. */
function refuseOthers(kind: Stats): void {
  if (!kind.isFile() && !kind.isDirectory()) throw new NoRegularFile();
}

/** Why a file cannot be read, for an operator. */
export function explainReadFailure(cause: unknown): string {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  switch (code) {
    case "ENOENT":
      return "no such file";
    case "EISDIR":
      return "it is a folder";
    case "ENOTREGULAR":
      return "it is no regular file";
    case "EACCES":
    case "EPERM":
      return "permission denied";
    default:
      return code === "" ? String(cause) : code;
  }
}
