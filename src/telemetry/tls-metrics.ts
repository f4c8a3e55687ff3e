// The metrics of TLS on the listener: failed handshakes and the certificate in use, so that a scrape is enough to alert on its
// expiry. They exist without TLS as well, with values that raise no alert.
import type { Registry } from "prom-client";
import { type CertificateInUse, type TlsFailure, tlsFailures } from "../core/tls.ts";
import { add, counterByLabel, gauge } from "./series.ts";

/** Returns a function that counts one failed handshake. */
export function tlsMetrics(
  registry: Registry,
  certificate: () => CertificateInUse | null,
): (reason: TlsFailure) => void {
  const failures = counterByLabel(
    registry,
    "headgate_tls_handshake_failures_total",
    "TLS handshakes with clients that did not succeed, by reason.",
    "reason",
    tlsFailures,
  );
  const expiry = "When the certificate in use expires, in Unix seconds; 0 without TLS.";
  gauge(registry, "headgate_tls_certificate_expiry_timestamp_seconds", expiry, [], (set) =>
    set({}, (certificate()?.expiresMs ?? 0) / 1000),
  );
  const current =
    "1 while the certificate's files are in use as they are now, 0 while they are away or wrong; 1 without TLS.";
  gauge(registry, "headgate_tls_certificate_current", current, [], (set) =>
    set({}, certificate()?.isCurrent === false ? 0 : 1),
  );
  return (reason) => add(failures.get(reason));
}
