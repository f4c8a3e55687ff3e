// Whether the files of `listen.tls` can be used, before anything is opened. One line for each mistake, in the style of
// the configuration's own; a certificate that has expired or soon will is told, and is no mistake.
import { explainReadFailure } from "../config/load.ts";
import { readRegularFile } from "../config/regular-file.ts";
import type { Settings } from "../core/settings.ts";
import { type CertificateTexts, certificateWarning, readCertificate } from "../server/certificate.ts";
import { nameFrom } from "./name-from.ts";

export interface TlsFilesReading {
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Both empty if the files are fine, or if none are needed. */
export function readTlsFiles({ listen }: Settings, cwd: string, wallMs: number): TlsFilesReading {
  const { tls } = listen;
  if (tls === null) return { errors: [], warnings: [] };
  const errors: string[] = [];
  const place = (file: keyof CertificateTexts): string => `listen.tls.${file}: ${nameFrom(cwd, tls[file] ?? "")}`;
  const read = (file: keyof CertificateTexts, path: string): string => {
    try {
      return readRegularFile(path).toString("latin1");
    } catch (cause) {
      errors.push(`${place(file)}: cannot be read: ${explainReadFailure(cause)}`);
      return "";
    }
  };
  const texts: CertificateTexts = {
    cert: read("cert", tls.cert),
    key: read("key", tls.key),
    clientCa: tls.clientCa === null ? null : read("clientCa", tls.clientCa),
  };
  if (errors.length > 0) return { errors, warnings: [] };
  const reading = readCertificate(texts);
  if (!reading.ok) {
    return {
      errors: reading.flaws.map(({ file, found, expected }) => `${place(file)}: found ${found}, expected ${expected}`),
      warnings: [],
    };
  }
  const warning = certificateWarning(reading, wallMs);
  return { errors: [], warnings: warning === null ? [] : [`${place("cert")}: warning: the certificate ${warning}`] };
}
