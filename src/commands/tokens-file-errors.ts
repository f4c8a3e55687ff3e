// Whether the files of digests that the configuration names can be used, before anything is opened. One line for each mistake, in
// the style of the configuration's own.
import { noDigest, parseTokens } from "../auth/tokens-file.ts";
import type { NamedFiles } from "../config/named-files.ts";
import { explainReadFailure, readRegularFile } from "../config/regular-file.ts";
import { nameFrom } from "./name-from.ts";

/** Empty if the files are fine, or if none is needed. */
export async function tokensFileErrors(files: NamedFiles, cwd: string): Promise<string[]> {
  const { tokensFile, secretsFile, place } = files;
  return [
    ...(tokensFile === null ? [] : await fileErrors(tokensFile, cwd, place("auth.tokensFile"))),
    ...(secretsFile === null ? [] : await fileErrors(secretsFile, cwd, place("extAuth.secretsFile"))),
  ];
}

async function fileErrors(file: string, cwd: string, place: string): Promise<string[]> {
  const shown = nameFrom(cwd, file);
  let text: string;
  try {
    text = await readRegularFile(file, "utf8");
  } catch (cause) {
    return [`${place}: ${shown}: cannot be read: ${explainReadFailure(cause)}`];
  }
  const parsed = parseTokens(text);
  const errors = parsed.ok ? (parsed.digests.length > 0 ? [] : [noDigest]) : parsed.errors;
  return errors.map(({ line, found, expected }) => `${shown}:${line}: found ${found}, expected ${expected}`);
}
