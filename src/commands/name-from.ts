// How a file is called in what is told: as one would name it from where the command runs.
import { isAbsolute, relative } from "node:path";

export function nameFrom(cwd: string, file: string): string {
  const name = relative(cwd, file);
  return name === "" || name.startsWith("..") || isAbsolute(name) ? file : name;
}
