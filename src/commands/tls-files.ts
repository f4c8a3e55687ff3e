// Checks the files of `listen.tls` before anything is opened: one line for each error, in the style of the
// configuration's own. A certificate that has expired or soon will is a warning, not an error.
import type { NamedFiles } from "../config/load.ts";
import { explainReadFailure, readRegularFile } from "../config/regular-file.ts";
import { type CertificateTexts, certificateWarning, readCertificate } from "../listener/certificate.ts";
import { nameFrom } from "./name-from.ts";

export interface TlsFilesReading {
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Both are empty if the files are right, or if none is needed. */
export async function readTlsFiles(files: NamedFiles, cwd: string, wallMs: number): Promise<TlsFilesReading> {
  const errors: string[] = [];
  const place = (file: keyof CertificateTexts): string =>
    `${files.place(`listen.tls.${file}`)}: ${nameFrom(cwd, files.path(`listen.tls.${file}`) ?? "")}`;
  const read = async (file: keyof CertificateTexts): Promise<string | null> => {
    const path = files.path(`listen.tls.${file}`);
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
