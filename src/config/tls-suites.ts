// What a listener with TLS has and offers: its certificate, the lowest version, and the cipher suites by OpenSSL's names. The
// defaults are those of RFC 9325: TLS 1.3, and TLS 1.2 with ECDHE and AEAD alone.
import { listOf } from "./definition.ts";
import { choice, filePath, repeatedItems } from "./leaves.ts";
import type { Refuse } from "./written.ts";

const withEcdhe = (...names: string[]): string[] => names.flatMap((n) => [`ECDHE-ECDSA-${n}`, `ECDHE-RSA-${n}`]);

/** The preferred one first, as everywhere here. */
const ofTls13 = ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];
const suites = [...ofTls13, ...withEcdhe("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")];
/** With CBC, or without forward secrecy: HTTP/2 forbids them (RFC 9113, appendix A). */
const forOldClients = [
  ...withEcdhe("AES128-SHA256", "AES256-SHA384", "AES128-SHA", "AES256-SHA"),
  ...["AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA256", "AES256-SHA256", "AES128-SHA", "AES256-SHA"],
];

export const serverTls = {
  cert: filePath("Certificate of the server and its intermediate certificates, in PEM."),
  key: filePath("Private key of the certificate, in PEM, without a passphrase."),
  minVersion: choice("TLSv1.2", ["TLSv1.2", "TLSv1.3"])("The lowest version of TLS that is agreed on."),
  ciphers: listOf(
    choice<string>("TLS_AES_256_GCM_SHA384", [...suites, ...forOldClients])("A cipher suite by OpenSSL's name."),
    suites.length + forOldClients.length,
    { items: "names of cipher suites", flaws: repeatedItems },
  )("Cipher suites, the preferred one first; without any, TLS 1.3's, and ECDHE with AEAD for TLS 1.2."),
};

/** Returns the list for OpenSSL. If it names only suites of TLS 1.2, those of TLS 1.3 are added; never the other way round. */
export function openSslList(ciphers: readonly string[] = []): string {
  if (ciphers.length === 0) return suites.join(":");
  return [...(ciphers.some((name) => ofTls13.includes(name)) ? [] : ofTls13), ...ciphers].join(":");
}

/** Whether the suites of TLS 1.2 in the list, if there are any, have one for the key of the certificate. */
export function hasSuiteFor(isRsa: boolean, ciphers: readonly string[] = []): boolean {
  const ofTls12 = ciphers.filter((name) => !ofTls13.includes(name));
  return ofTls12.length === 0 || ofTls12.some((name) => name.includes("ECDSA") !== isRsa);
}

export function validateHttp2Suites(isOn: boolean, ciphers: readonly string[], refuse: Refuse): void {
  const because = "since listen.tls.http2 is true (RFC 9113, appendix A); remove it, or set that to false";
  for (const [index, name] of isOn ? ciphers.entries() : []) {
    if (!forOldClients.includes(name)) continue;
    refuse(`listen.tls.ciphers.${index}`, `a suite with ECDHE and AEAD, ${because}`, "listen.tls.http2");
  }
}
