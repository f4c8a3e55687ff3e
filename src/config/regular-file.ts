// Reads a file that is one. A pipe or a terminal would be waited for without end, and a device never ends: they are
// refused, whatever they would have said.
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

export class NoRegularFile extends Error {
  readonly code = "ENOTREGULAR";

  constructor() {
    super("It is no regular file.");
  }
}

/** Throws a NoRegularFile, or what the system says. */
export function readRegularFile(path: string): Buffer {
  // Without O_NONBLOCK opening a pipe already waits for somebody to write to it.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const kind = fstatSync(fd);
    // Reading a folder fails by itself, with the better word.
    if (!kind.isFile() && !kind.isDirectory()) throw new NoRegularFile();
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}
