// Files that are mounted one by one. When an editor replaces such a file, the mount keeps the old one for ever: the gateway
// sees no change, however often it reads.
import { readFileSync, realpathSync } from "node:fs";

/** Of this process, on Linux: a line for each mount (proc_pid_mountinfo(5)). */
const mountsFile = "/proc/self/mountinfo";

/** Returns those of the files that are mounted by themselves; none where the system does not tell. */
export function mountedAlone(files: readonly string[], mounts: string = textOf(mountsFile)): readonly string[] {
  const points = new Set(mounts.split("\n").map((line) => unescaped(line.split(" ")[4] ?? "")));
  return files.filter((file) => points.has(targetOf(file)));
}

/** The kernel writes blanks, tabs, line ends and backslashes of a path in octal. */
function unescaped(path: string): string {
  return path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // Not Linux, or a container without it.
    return "";
  }
}

function targetOf(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    // It is gone, or not readable: whoever reads it says so.
    return file;
  }
}
