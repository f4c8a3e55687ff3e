// Whether the files of `listen.tls` can be used, before anything is opened. One line for each mistake, in the style of
// the configuration's own; a certificate that has expired or soon will is told, and is no mistake.
import type { NamedFiles } from "../config/named-files.ts";
import { explainReadFailure, readRegularFile } from "../config/regular-file.ts";
import { type CertificateTexts, certificateWarning, readCertificate } from "../listener/certificate.ts";
import { nameFrom } from "./name-from.ts";

export interface TlsFilesReading {
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Both empty if the files are fine, or if none are needed. */
export async function readTlsFiles(
  { listenTls: tls, place: placeOf }: NamedFiles,
  cwd: string,
  wallMs: number,
): Promise<TlsFilesReading> {
  const errors: string[] = [];
  const place = (file: keyof CertificateTexts): string =>
    `${placeOf(`listen.tls.${file}`)}: ${nameFrom(cwd, tls[file] ?? "")}`;
  const read = async (file: keyof CertificateTexts): Promise<string | null> => {
    const path = tls[file];
    if (path === null) return null;
    try {
      return await readRegularFile(path, "latin1");
    } catch (cause) {
      errors.push(`${place(file)}: cannot be read: ${explainReadFailure(cause)}`);
      return null;
    }
  };
  const [cert, key, clientCa] = [await read("cert"), await read("key"), await read("clientCa")];
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
