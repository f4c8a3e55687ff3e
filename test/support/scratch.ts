// Folders for files. In memory, where there is such a folder: a sync of a busy disk takes seconds.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const scratch = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** Makes an empty folder that `cleanup`, or a hook such as `afterAll`, removes. */
export function scratchFolder(cleanup: (remove: () => void) => unknown): string {
  const folder = mkdtempSync(join(scratch, "headgate-test-"));
  cleanup(() => rmSync(folder, { recursive: true }));
  return folder;
}
