// Whether the files that upstream.tls names can be used, before anything is opened. One line for each mistake, in the
// style of the configuration's own; and the line that a certificate nobody checks deserves.
import type { NamedFiles } from "../config/named-files.ts";
import { explainReadFailure, readRegularFile } from "../config/regular-file.ts";
import type { Settings } from "../core/settings.ts";
import { judgeTlsFiles, readTlsTexts, type TlsFileError } from "../upstream/tls-files.ts";
import { nameFrom } from "./name-from.ts";

/** Empty if the files are fine, or if none is needed. */
export async function upstreamTlsErrors({ upstreamTls, place }: NamedFiles, cwd: string): Promise<string[]> {
  const judged = judgeTlsFiles(upstreamTls, await readTlsTexts(upstreamTls, readRegularFile));
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
