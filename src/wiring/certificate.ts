// Opens the certificate of the listener, and logs its reloads and warnings.
import { type Clock, httpDate } from "../core/clock.ts";
import type { Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import type { Certificate } from "../core/tls.ts";
import { createFileLog } from "../telemetry/file-log.ts";
import type { FilesAndLog } from "./authenticators.ts";

/** Null without TLS. Rejects with a FilesError. */
export async function openCertificate(
  { listen }: Settings,
  { clock, log, files }: FilesAndLog & { readonly clock: Clock },
): Promise<Watched<Certificate> | null> {
  if (listen.tls === null) return null;
  const { certificateWarning, listenTlsFiles } = await import("../config/tls-files.ts");
  const facts = ({ expiresMs }: Certificate) => ({ expires: httpDate(expiresMs) });
  const warn = (certificate: Certificate): void => {
    const warning = certificateWarning(certificate, clock.wallMs());
    if (warning !== null) log.warn(facts(certificate), `the certificate ${warning}`);
  };
  const events = createFileLog(log, "certificate files", facts);
  const onReload = (certificate: Certificate): void => {
    events.onReload(certificate);
    warn(certificate);
  };
  const certificate = await files.open(listenTlsFiles(listen.tls), { ...events, onReload });
  warn(certificate.value);
  return certificate;
}
