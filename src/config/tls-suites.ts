// What a listener with TLS offers: the lowest version and the cipher suites. The defaults are those of RFC 9325: TLS 1.2 with
// ECDHE and AEAD alone, and TLS 1.3. Names are OpenSSL's.
import { listOf } from "./definition.ts";
import { choice, repeatedItems } from "./leaves.ts";
import type { Refuse } from "./written.ts";

/** In the order of preference, as everywhere here. */
const ofTls13 = ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"] as const;

const withEcdheAndAead = [
  ...["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"],
  ...["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"],
  ...["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"],
];

/** With CBC, or without forward secrecy: HTTP/2 forbids them (RFC 9113, appendix A). */
const forOldClients = [
  ...["ECDHE-ECDSA-AES128-SHA256", "ECDHE-RSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA384", "ECDHE-RSA-AES256-SHA384"],
  ...["ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA"],
  ...["AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA256", "AES256-SHA256", "AES128-SHA", "AES256-SHA"],
];

const suites = [...ofTls13, ...withEcdheAndAead];
const all = [...suites, ...forOldClients];

export const tlsOffer = {
  minVersion: choice("TLSv1.2", ["TLSv1.2", "TLSv1.3"], "The lowest version of TLS that is agreed on."),
  ciphers: listOf(
    choice<string>("TLS_AES_256_GCM_SHA384", all, "The name of a cipher suite, as OpenSSL spells it."),
    all.length,
    { items: "names of cipher suites", flaws: repeatedItems },
    "Cipher suites, the preferred one first; without any, TLS 1.3's, and ECDHE with AEAD for TLS 1.2.",
  ),
};

/** OpenSSL's list. One of suites of TLS 1.2 alone leaves TLS 1.3 as it is; one of TLS 1.3 alone ends TLS 1.2. */
export function openSslList(ciphers: readonly string[] = []): string {
  if (ciphers.length === 0) return suites.join(":");
  return [...(ciphers.some(isOfTls13) ? [] : ofTls13), ...ciphers].join(":");
}

/** Whether a certificate can be used in TLS 1.2, with an RSA key or without, unless the list has nothing of TLS 1.2. */
export function hasSuiteFor(isRsa: boolean, ciphers: readonly string[] = []): boolean {
  const ofTls12 = ciphers.filter((name) => !isOfTls13(name));
  return ofTls12.length === 0 || ofTls12.some((name) => name.includes("ECDSA") !== isRsa);
}

const isOfTls13 = (name: string): boolean => name.startsWith("TLS_");

export function judgeHttp2Suites(
  { http2, ciphers }: { readonly http2: boolean; readonly ciphers: readonly string[] },
  refuse: Refuse,
): void {
  const expected =
    "a suite with ECDHE and AEAD, since listen.tls.http2 is true (RFC 9113, appendix A); remove it, or set that to false";
  for (const [index, name] of http2 ? ciphers.entries() : []) {
    if (forOldClients.includes(name)) refuse(`listen.tls.ciphers.${index}`, expected, "listen.tls.http2");
  }
}
