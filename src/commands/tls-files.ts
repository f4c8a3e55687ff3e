// Whether the files of `listen.tls` can be used, before anything is opened. One line for each mistake, in the style of
// the configuration's own; a certificate that has expired or soon will is told, and is no mistake.
import { explainReadFailure } from "../config/load.ts";
import type { NamedFiles } from "../config/named-files.ts";
import { readRegularFile } from "../config/regular-file.ts";
import { type CertificateTexts, certificateWarning, readCertificate } from "../server/certificate.ts";
import { nameFrom } from "./name-from.ts";

export interface TlsFilesReading {
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Both empty if the files are fine, or if none are needed. */
export function readTlsFiles(
  { listenTls: tls, place: placeOf }: NamedFiles,
  cwd: string,
  wallMs: number,
): TlsFilesReading {
  const errors: string[] = [];
  const place = (file: keyof CertificateTexts): string =>
    `${placeOf(`listen.tls.${file}`)}: ${nameFrom(cwd, tls[file] ?? "")}`;
  const read = (file: keyof CertificateTexts): string | null => {
    const path = tls[file];
    if (path === null) return null;
    try {
      return readRegularFile(path).toString("latin1");
    } catch (cause) {
      errors.push(`${place(file)}: cannot be read: ${explainReadFailure(cause)}`);
      return null;
    }
  };
  const [cert, key, clientCa] = [read("cert"), read("key"), read("clientCa")];
  if (errors.length > 0 || cert === null || key === null) return { errors, warnings: [] };
  const reading = readCertificate({ cert, key, clientCa });
  if (!reading.ok) {
    return {
      errors: reading.flaws.map(({ file, found, expected }) => `${place(file)}: found ${found}, expected ${expected}`),
      warnings: [],
    };
  }
  const warning = certificateWarning(reading, wallMs);
  return { errors: [], warnings: warning === null ? [] : [`${place("cert")}: warning: the certificate ${warning}`] };
}
