// The folder for files that are synced to the disk. In memory, where there is such a folder: a sync of a busy disk takes
// seconds.
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";

export const scratch = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
