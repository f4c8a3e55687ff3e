// Checks the files of digests that the configuration names, before anything is opened: one line for each error, in the
// style of the configuration's own.
import { noDigest, parseTokens } from "../auth/tokens-file.ts";
import type { NamedFiles } from "../config/load.ts";
import { explainReadFailure, readRegularFile } from "../config/regular-file.ts";
import { nameFrom } from "./name-from.ts";

/** Empty if the files are right, or if none is needed. */
export async function tokensFileErrors(files: NamedFiles, cwd: string): Promise<string[]> {
  return [
    ...(await fileErrors("auth.tokensFile", files, cwd)),
    ...(await fileErrors("extAuth.secretsFile", files, cwd)),
  ];
}

async function fileErrors(key: string, { path, place }: NamedFiles, cwd: string): Promise<string[]> {
  const file = path(key);
  if (file === null) return [];
  const shown = nameFrom(cwd, file);
  let text: string;
  try {
    text = await readRegularFile(file, "utf8");
  } catch (cause) {
    return [`${place(key)}: ${shown}: cannot be read: ${explainReadFailure(cause)}`];
  }
  const parsed = parseTokens(text);
  const errors = parsed.ok ? (parsed.digests.length > 0 ? [] : [noDigest]) : parsed.errors;
  return errors.map(({ line, found, expected }) => `${shown}:${line}: found ${found}, expected ${expected}`);
}
