// Folders for files that are synced to the disk. In memory, where there is such a folder: a sync of a busy disk takes
// seconds.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cleanup } from "./cleanup.ts";

const scratch = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** Makes an empty folder that goes with the test. */
export function scratchFolder(cleanup: Cleanup): string {
  const folder = mkdtempSync(join(scratch, "headgate-test-"));
  cleanup(() => rmSync(folder, { recursive: true }));
  return folder;
}
