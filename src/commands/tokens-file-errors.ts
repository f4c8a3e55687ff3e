// Whether the tokens file that the configuration names can be used, before anything is opened. One line for each mistake, in
// the style of the configuration's own.
import { noDigest, parseTokens } from "../auth/tokens-file.ts";
import type { NamedFiles } from "../config/named-files.ts";
import { explainReadFailure, readRegularFile } from "../config/regular-file.ts";
import { nameFrom } from "./name-from.ts";

/** Empty if the file is fine, or if none is needed. */
export async function tokensFileErrors({ tokensFile, place }: NamedFiles, cwd: string): Promise<string[]> {
  if (tokensFile === null) return [];
  const shown = nameFrom(cwd, tokensFile);
  let text: string;
  try {
    text = await readRegularFile(tokensFile, "utf8");
  } catch (cause) {
    return [`${place("auth.tokensFile")}: ${shown}: cannot be read: ${explainReadFailure(cause)}`];
  }
  const parsed = parseTokens(text);
  const errors = parsed.ok ? (parsed.digests.length > 0 ? [] : [noDigest]) : parsed.errors;
  return errors.map(({ line, found, expected }) => `${shown}:${line}: found ${found}, expected ${expected}`);
}
