// The certificate of the listener, made from the settings, with what the log is told of it and of its files.
import { readRegularFile } from "../config/regular-file.ts";
import { type Clock, httpDate } from "../core/clock.ts";
import { failureCode } from "../core/failure.ts";
import type { Settings } from "../core/settings.ts";
import { certificateWarning } from "../listener/certificate.ts";
import { CertificateFiles, type ValidCertificate } from "../listener/certificate-files.ts";
import type { Logger } from "../telemetry/log.ts";

/** Null without TLS. Rejects with a CertificateProblem. */
export async function openCertificate(
  { listen }: Settings,
  { clock, log }: { clock: Clock; log: Logger },
): Promise<CertificateFiles | null> {
  if (listen.tls === null) return null;
  const warn = (validity: ValidCertificate): void => {
    const warning = certificateWarning(validity, clock.wallMs());
    if (warning !== null) log.warn({ expires: httpDate(validity.expiresMs) }, `the certificate ${warning}`);
  };
  const certificate = await CertificateFiles.watch(listen.tls, readRegularFile, {
    onReload: (validity) => {
      log.info({ expires: httpDate(validity.expiresMs) }, "certificate reread");
      warn(validity);
    },
    onError: (why) => {
      const facts = why.kind === "invalid" ? { errors: why.flaws } : { file: why.file, code: failureCode(why.cause) };
      log.error(facts, "certificate files not usable, the certificate from before stays in use");
    },
  });
  warn(certificate.validity);
  return certificate;
}
