// The name of a file in messages: relative to the working directory if it is inside.
import { isAbsolute, relative } from "node:path";

export function nameFrom(cwd: string, file: string): string {
  const name = relative(cwd, file);
  return name === "" || name.startsWith("..") || isAbsolute(name) ? file : name;
}
