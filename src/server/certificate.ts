// What the files of `listen.tls` hold, judged before they are used: whether each can be read as what it should be and
// whether they belong together. Never repeats what is in a file: one of them is a secret, and any may be the wrong one.
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";

export interface CertificateTexts {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | null;
}

export type TlsFile = keyof CertificateTexts;

export interface CertificateFlaw {
  readonly file: TlsFile;
  readonly found: string;
  readonly expected: string;
}

export type CertificateReading =
  | {
      readonly ok: true;
      /** Unix milliseconds, both: the first from which on, and the first at which no more. */
      readonly validFromMs: number;
      readonly expiresMs: number;
    }
  | { readonly ok: false; readonly flaws: readonly CertificateFlaw[] };

const expected = {
  cert: "the server's certificate in PEM, followed by those that vouch for it",
  key: "the private key of that certificate in PEM, without a passphrase",
  clientCa: "the certificates of the authorities that vouch for clients, in PEM",
} as const;

export function readCertificate({ cert, key, clientCa }: CertificateTexts): CertificateReading {
  const flaws: CertificateFlaw[] = [];
  const certificates = readCertificates("cert", cert, flaws);
  const privateKey = readKey(key, flaws);
  if (clientCa !== null) {
    for (const authority of readCertificates("clientCa", clientCa, flaws)) {
      if (authority.ca) continue;
      flaws.push({ file: "clientCa", found: "a certificate of no authority", expected: expected.clientCa });
    }
  }
  const [leaf] = certificates;
  if (flaws.length > 0 || leaf === undefined || privateKey === null) return { ok: false, flaws };
  if (!leaf.checkPrivateKey(privateKey)) {
    const found = "a key that does not belong to the certificate";
    return { ok: false, flaws: [{ file: "key", found, expected: expected.key }] };
  }
  try {
    createSecureContext({ cert, key, ...(clientCa === null ? {} : { ca: clientCa }) });
  } catch (cause) {
    return { ok: false, flaws: [{ file: "cert", found: openSslReason(cause), expected: expected.cert }] };
  }
  return { ok: true, validFromMs: leaf.validFromDate.getTime(), expiresMs: leaf.validToDate.getTime() };
}

function readCertificates(file: "cert" | "clientCa", text: string, flaws: CertificateFlaw[]): X509Certificate[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs) ?? [];
  const refuse = (found: string): void => void flaws.push({ file, found, expected: expected[file] });
  if (blocks.length === 0) refuse("no certificate");
  const certificates: X509Certificate[] = [];
  for (const [index, block] of blocks.entries()) {
    try {
      certificates.push(new X509Certificate(block));
    } catch (cause) {
      refuse(`a certificate that cannot be read (number ${index + 1}: ${openSslReason(cause)})`);
    }
  }
  return certificates;
}

function readKey(text: string, flaws: CertificateFlaw[]): KeyObject | null {
  const refuse = (found: string): null => {
    flaws.push({ file: "key", found, expected: expected.key });
    return null;
  };
  if (!/-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(text)) return refuse("no private key");
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
    return refuse("a private key with a passphrase");
  }
  try {
    return createPrivateKey(text);
  } catch (cause) {
    return refuse(`a private key that cannot be read (${openSslReason(cause)})`);
  }
}

/** OpenSSL's own few words, which are from a closed list and quote nothing. */
function openSslReason(cause: unknown): string {
  const reason = cause instanceof Error && "reason" in cause ? cause.reason : undefined;
  return typeof reason === "string" ? reason : "it is damaged";
}

const day = 24 * 3600 * 1000;

/** What an operator should hear of a certificate that can be used all the same; null if there is nothing to say. */
export function certificateWarning(
  { validFromMs, expiresMs }: { readonly validFromMs: number; readonly expiresMs: number },
  wallMs: number,
): string | null {
  if (wallMs >= expiresMs) return "has expired";
  if (wallMs < validFromMs) return "is not valid yet";
  const days = Math.floor((expiresMs - wallMs) / day);
  return days < 14 ? `expires in ${days === 1 ? "1 day" : `${days} days`}` : null;
}
