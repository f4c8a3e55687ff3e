// Files that are mounted one by one. When an editor replaces such a file, the mount keeps the old one for ever: the gateway
// sees no change, however often it reads.
import { readFileSync, realpathSync } from "node:fs";

/** Of this process, on Linux: a line for each mount (proc_pid_mountinfo(5)). */
const mountsFile = "/proc/self/mountinfo";

/** Returns those of the files that are mounted by themselves; none where the system does not tell. */
export function mountedAlone(
  files: readonly string[],
  mounts = orElse(() => readFileSync(mountsFile, "utf8"), ""),
): readonly string[] {
  const points = new Set(mounts.split("\n").map((line) => unescaped(line.split(" ")[4] ?? "")));
  return files.filter((file) => points.has(orElse(() => realpathSync(file), file)));
}

/** The kernel writes blanks, tabs, line ends and backslashes of a path in octal. */
function unescaped(path: string): string {
  return path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/** `otherwise`: where the system does not tell of mounts, or the file cannot be read, which its reader reports. */
function orElse(read: () => string, otherwise: string): string {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
