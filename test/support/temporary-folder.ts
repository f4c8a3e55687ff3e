// A run of `npm test` has a temporary folder of its own. What a test leaves in it fails the run, and goes with it: a folder
// that stays after each run fills the disk of whoever runs the tests often.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The processes of the tests start after this, and inherit TMPDIR. Returns what ends the run. */
export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "headgate-tests-"));
  process.env["TMPDIR"] = folder;
  return () => {
    const left = readdirSync(folder);
    rmSync(folder, { recursive: true });
    if (left.length > 0) throw new Error(`tests left in the temporary folder, and should remove: ${left.join(", ")}`);
  };
}
