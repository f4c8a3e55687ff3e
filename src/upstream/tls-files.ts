// The PEM files behind upstream.tls, read and judged: all that is wrong with them is told at once, by key and file, and
// never with anything of what is in them.
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext, type SecureContext } from "node:tls";
import { asError } from "../core/failure.ts";
import { readCertificates, readPrivateKey } from "../core/pem.ts";
import type { ReadFile } from "../core/read-file.ts";
import type { UpstreamTlsSettings } from "../core/upstream.ts";

export type TlsFileKey = "ca" | "cert" | "key";

/** Absolute. */
export type TlsFilePaths = Pick<UpstreamTlsSettings, TlsFileKey>;

export type TlsFileError = { readonly key: TlsFileKey; readonly file: string } & (
  | { readonly kind: "unreadable"; readonly cause: Error }
  | { readonly kind: "invalid"; readonly found: string; readonly expected: string }
);

/** The text of each file that is configured, or why there is none. */
export type TlsTexts = ReadonlyMap<TlsFileKey, string | Error>;

export type TlsFilesJudged =
  | { readonly ok: true; readonly context: SecureContext }
  | { readonly ok: false; readonly errors: readonly TlsFileError[] };

const keys: readonly TlsFileKey[] = ["ca", "cert", "key"];

export async function readTlsTexts(tls: TlsFilePaths, readFile: ReadFile): Promise<TlsTexts> {
  const texts = new Map<TlsFileKey, string | Error>();
  for (const key of keys) {
    const file = tls[key];
    if (file !== null) texts.set(key, await readFile(file, "latin1").catch(asError));
  }
  return texts;
}

export function judgeTlsFiles(tls: TlsFilePaths, texts: TlsTexts): TlsFilesJudged {
  const errors: TlsFileError[] = [];
  const refuse = (key: TlsFileKey, found: string, expected: string): void => {
    errors.push({ kind: "invalid", key, file: tls[key] ?? "", found, expected });
  };
  const text = (key: TlsFileKey): string | undefined => {
    const read = texts.get(key);
    if (!(read instanceof Error)) return read;
    errors.push({ kind: "unreadable", key, file: tls[key] ?? "", cause: read });
    return undefined;
  };
  const [ca, cert, key] = [text("ca"), text("cert"), text("key")];
  const certificates = (name: "ca" | "cert", pem: string): readonly X509Certificate[] => {
    const { certificates, flaws } = readCertificates(pem, (block) => new X509Certificate(block));
    for (const found of flaws) refuse(name, found, "one or more in PEM");
    return certificates;
  };
  if (ca !== undefined) certificates("ca", ca);
  const [own] = cert === undefined ? [] : certificates("cert", cert);
  const secret = key === undefined ? null : readPrivateKey(key, createPrivateKey);
  if (secret?.ok === false) refuse("key", secret.flaw, "one in PEM, without a passphrase");
  if (secret?.ok && own?.checkPrivateKey(secret.key) === false) {
    refuse("key", "the key of another certificate", "the one that belongs to upstream.tls.cert");
  }
  if (errors.length > 0) return { ok: false, errors: errors.toSorted(byKey) };
  try {
    return { ok: true, context: createSecureContext({ ...readable(tls, texts), minVersion: "TLSv1.2" }) };
  } catch (error) {
    // A key that is too short for OpenSSL, say.
    const code = error instanceof Error && "code" in error ? String(error.code) : "OpenSSL refuses";
    refuse(cert === undefined ? "ca" : "cert", code, "a certificate that OpenSSL accepts");
    return { ok: false, errors };
  }
}

const byKey = (a: TlsFileError, b: TlsFileError): number => keys.indexOf(a.key) - keys.indexOf(b.key);

/** Only what is there: without `ca` the system's roots are believed. */
function readable(tls: TlsFilePaths, texts: TlsTexts): Partial<Record<TlsFileKey, string>> {
  return Object.fromEntries(keys.filter((key) => tls[key] !== null).map((key) => [key, String(texts.get(key))]));
}
