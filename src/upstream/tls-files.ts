// The files of `upstream.tls`, judged before they are used: whether each can be parsed, and whether they belong together.
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext, type SecureContext } from "node:tls";
import type { FileFlaw, FileGroup, FilesReading } from "../core/file-group.ts";
import { readCertificates, readPrivateKey } from "../core/pem.ts";
import type { UpstreamTlsSettings } from "../core/upstream.ts";

type File = "ca" | "cert" | "key";

export function upstreamTlsFiles({ ca, cert, key }: Pick<UpstreamTlsSettings, File>): FileGroup<SecureContext> {
  return {
    paths: { "upstream.tls.ca": ca, "upstream.tls.cert": cert, "upstream.tls.key": key },
    parse: (texts) =>
      readTlsTexts({ ca: texts["upstream.tls.ca"], cert: texts["upstream.tls.cert"], key: texts["upstream.tls.key"] }),
  };
}

function readTlsTexts({ ca, cert, key }: Readonly<Record<File, string | undefined>>): FilesReading<SecureContext> {
  const flaws: FileFlaw[] = [];
  const refuse = (file: File, found: string, expected: string): void => {
    flaws.push({ key: `upstream.tls.${file}`, found, expected });
  };
  const certificates = (file: "ca" | "cert", pem: string): readonly X509Certificate[] => {
    const { certificates, flaws } = readCertificates(pem, (block) => new X509Certificate(block));
    for (const found of flaws) refuse(file, found, "one or more in PEM");
    return certificates;
  };
  if (ca !== undefined) certificates("ca", ca);
  const [own] = cert === undefined ? [] : certificates("cert", cert);
  const secret = key === undefined ? null : readPrivateKey(key, createPrivateKey);
  if (secret?.ok === false) refuse("key", secret.flaw, "one in PEM, without a passphrase");
  if (secret?.ok && own?.checkPrivateKey(secret.key) === false) {
    refuse("key", "the key of another certificate", "the one that belongs to upstream.tls.cert");
  }
  if (flaws.length > 0) return { ok: false, flaws };
  try {
    // Without `ca` the system's authorities are trusted.
    const given = Object.fromEntries(Object.entries({ ca, cert, key }).filter(([, text]) => text !== undefined));
    return { ok: true, value: createSecureContext({ ...given, minVersion: "TLSv1.2" }) };
  } catch (error) {
    // A key that is too short for OpenSSL, for example.
    const code = error instanceof Error && "code" in error ? String(error.code) : "OpenSSL refuses";
    refuse(cert === undefined ? "ca" : "cert", code, "a certificate that OpenSSL accepts");
    return { ok: false, flaws };
  }
}
