// What a PEM file holds, in words that quote nothing of it: one of them is a secret, and any may be the wrong one. How
// a certificate and a key are parsed is the caller's.

export interface CertificatesReading<C> {
  readonly certificates: readonly C[];
  /** What was found in place of them; empty if nothing is wrong. */
  readonly flaws: readonly string[];
}

export function readCertificates<C>(pem: string, parse: (block: string) => C): CertificatesReading<C> {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs) ?? [];
  if (blocks.length === 0) return { certificates: [], flaws: ["no certificate"] };
  const certificates: C[] = [];
  const flaws: string[] = [];
  for (const [index, block] of blocks.entries()) {
    try {
      certificates.push(parse(block));
    } catch (cause) {
      flaws.push(`a certificate that cannot be read (number ${index + 1}: ${openSslReason(cause)})`);
    }
  }
  return { certificates, flaws };
}

export type KeyReading<K> = { readonly ok: true; readonly key: K } | { readonly ok: false; readonly flaw: string };

export function readPrivateKey<K>(pem: string, parse: (pem: string) => K): KeyReading<K> {
  if (!/-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(pem)) return { ok: false, flaw: "no private key" };
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem)) {
    return { ok: false, flaw: "a private key with a passphrase" };
  }
  try {
    return { ok: true, key: parse(pem) };
  } catch (cause) {
    return { ok: false, flaw: `a private key that cannot be read (${openSslReason(cause)})` };
  }
}

/** OpenSSL's own few words, which are from a closed list and quote nothing. */
export function openSslReason(cause: unknown): string {
  const reason = cause instanceof Error && "reason" in cause ? cause.reason : undefined;
  return typeof reason === "string" ? reason : "it is damaged";
}
