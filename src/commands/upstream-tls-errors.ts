// Checks the files of `upstream.tls` before anything is opened: one line for each error, in the style of the
// configuration's own. Also warns if the upstream's certificate is not verified.
import type { NamedFiles } from "../config/load.ts";
import { explainReadFailure, readRegularFile } from "../config/regular-file.ts";
import type { Settings } from "../core/settings.ts";
import { judgeTlsFiles, readTlsTexts, type TlsFileError } from "../upstream/tls-files.ts";
import { nameFrom } from "./name-from.ts";

/** Empty if the files are right, or if none is needed. */
export async function upstreamTlsErrors({ path, place }: NamedFiles, cwd: string): Promise<string[]> {
  const paths = { ca: path("upstream.tls.ca"), cert: path("upstream.tls.cert"), key: path("upstream.tls.key") };
  const judged = judgeTlsFiles(paths, await readTlsTexts(paths, readRegularFile));
  if (judged.ok) return [];
  return judged.errors.map((error) =>
    renderTlsFileError(error, `${place(`upstream.tls.${error.key}`)}: ${nameFrom(cwd, error.file)}`),
  );
}

function renderTlsFileError(error: TlsFileError, place: string): string {
  switch (error.kind) {
    case "unreadable":
      return `${place}: cannot be read: ${explainReadFailure(error.cause)}`;
    case "invalid":
      return `${place}: found ${error.found}, expected ${error.expected}`;
  }
}

export function upstreamTlsWarnings({ upstream }: Settings): string[] {
  return upstream.tls.insecureSkipVerify
    ? ["warning: upstream.tls.insecureSkipVerify is true: anybody on the way can pose as the upstream"]
    : [];
}
