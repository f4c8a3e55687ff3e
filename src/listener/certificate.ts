// What the files of `listen.tls` hold, judged before they are used: whether each can be read as what it should be and
// whether they belong together. Never repeats what is in a file: one of them is a secret, and any may be the wrong one.
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { openSslReason, readCertificates, readPrivateKey } from "../core/pem.ts";

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
  const own = readCertificates(cert, parseCertificate);
  const secret = readPrivateKey(key, createPrivateKey);
  const flaws = [
    ...own.flaws.map((found) => flaw("cert", found)),
    ...(secret.ok ? [] : [flaw("key", secret.flaw)]),
    ...(clientCa === null ? [] : authorityFlaws(clientCa).map((found) => flaw("clientCa", found))),
  ];
  const [leaf] = own.certificates;
  if (flaws.length > 0 || leaf === undefined || !secret.ok) return { ok: false, flaws };
  if (!leaf.checkPrivateKey(secret.key)) {
    return { ok: false, flaws: [flaw("key", "a key that does not belong to the certificate")] };
  }
  try {
    createSecureContext({ cert, key, ...(clientCa === null ? {} : { ca: clientCa }) });
  } catch (cause) {
    return { ok: false, flaws: [flaw("cert", openSslReason(cause))] };
  }
  return { ok: true, validFromMs: leaf.validFromDate.getTime(), expiresMs: leaf.validToDate.getTime() };
}

function authorityFlaws(clientCa: string): string[] {
  const { certificates, flaws } = readCertificates(clientCa, parseCertificate);
  const others = certificates.filter(({ ca }) => !ca);
  return [...flaws, ...others.map(() => "a certificate of no authority")];
}

const flaw = (file: TlsFile, found: string): CertificateFlaw => ({ file, found, expected: expected[file] });
const parseCertificate = (pem: string): X509Certificate => new X509Certificate(pem);

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
