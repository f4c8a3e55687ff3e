// A file with the admin tokens that calls of tests have.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readToken, writeToken } from "../admin/api-stage.ts";
import { digestOf } from "../auth/digest.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";

/** Returns its path. */
export function adminTokensFile(cleanup: Cleanup): string {
  const file = join(scratchFolder(cleanup), "admin.txt");
  writeFileSync(file, `${digestOf(readToken)} read # dashboard\n${digestOf(writeToken)} write # ops\n`);
  return file;
}
