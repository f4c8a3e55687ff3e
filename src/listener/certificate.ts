// The files of `listen.tls`, judged before they are used: whether each can be parsed, and whether they belong together.
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { FileFlaw, FileGroup, FilesReading } from "../core/file-group.ts";
import { openSslReason, readCertificates, readPrivateKey } from "../core/pem.ts";

export interface CertificateTexts {
  readonly cert: string;
  readonly key: string;
  /** Null asks clients for no certificate. */
  readonly clientCa: string | null;
}

export interface Certificate extends CertificateTexts {
  /** Unix milliseconds. */
  readonly validFromMs: number;
  /** Unix milliseconds, exclusive. */
  readonly expiresMs: number;
}

type File = keyof CertificateTexts;

const expected = {
  cert: "the server's certificate in PEM, then the intermediate certificates",
  key: "the private key of that certificate in PEM, without a passphrase",
  clientCa: "the certificates of the authorities of clients, in PEM",
} as const;

export function certificateFiles({
  cert,
  key,
  clientCa,
}: Readonly<Record<File, string | null>>): FileGroup<Certificate> {
  return {
    paths: { "listen.tls.cert": cert, "listen.tls.key": key, "listen.tls.clientCa": clientCa },
    parse: (texts) =>
      readCertificate({
        cert: texts["listen.tls.cert"],
        key: texts["listen.tls.key"],
        clientCa: texts["listen.tls.clientCa"] ?? null,
      }),
  };
}

/** Judges what is there; without certificate and key there is no value. */
export function readCertificate(texts: {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly clientCa: string | null;
}): FilesReading<Certificate> {
  const { cert, key, clientCa } = texts;
  const own = cert === undefined ? null : readCertificates(cert, parseCertificate);
  const secret = key === undefined ? null : readPrivateKey(key, createPrivateKey);
  const flaws = [
    ...(own?.flaws ?? []).map((found) => flaw("cert", found)),
    ...(secret?.ok === false ? [flaw("key", secret.flaw)] : []),
    ...(clientCa === null ? [] : authorityFlaws(clientCa).map((found) => flaw("clientCa", found))),
  ];
  const leaf = own?.certificates[0];
  if (flaws.length > 0 || cert === undefined || key === undefined || leaf === undefined || !secret?.ok) {
    return { ok: false, flaws };
  }
  if (!leaf.checkPrivateKey(secret.key)) {
    return { ok: false, flaws: [flaw("key", "a key that does not belong to the certificate")] };
  }
  try {
    createSecureContext({ cert, key, ...(clientCa === null ? {} : { ca: clientCa }) });
  } catch (cause) {
    return { ok: false, flaws: [flaw("cert", openSslReason(cause))] };
  }
  const [validFromMs, expiresMs] = [leaf.validFromDate.getTime(), leaf.validToDate.getTime()];
  return { ok: true, value: { cert, key, clientCa, validFromMs, expiresMs } };
}

function authorityFlaws(clientCa: string): string[] {
  const { certificates, flaws } = readCertificates(clientCa, parseCertificate);
  const others = certificates.filter(({ ca }) => !ca);
  return [...flaws, ...others.map(() => "a certificate of no authority")];
}

const flaw = (file: File, found: string): FileFlaw => ({ key: `listen.tls.${file}`, found, expected: expected[file] });
const parseCertificate = (pem: string): X509Certificate => new X509Certificate(pem);

const day = 24 * 3600 * 1000;

/** What an operator should know about a valid certificate; null if there is nothing to say. */
export function certificateWarning(
  { validFromMs, expiresMs }: Pick<Certificate, "validFromMs" | "expiresMs">,
  wallMs: number,
): string | null {
  if (wallMs >= expiresMs) return "has expired";
  if (wallMs < validFromMs) return "is not valid yet";
  const days = Math.floor((expiresMs - wallMs) / day);
  return days < 14 ? `expires in ${days === 1 ? "1 day" : `${days} days`}` : null;
}
